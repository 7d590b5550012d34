// The inputs and outputs of the graphs.

const TOKENS = 16;
const WIDTH = 4096;

// The input `x` of the generated graph, or an input of a sentence of 16 tokens.
function input(Tensor, name) {
  if (name === "x") {
    return new Tensor("float32", Float32Array.from({ length: WIDTH }, (_, at) => Math.sin(at)), [1, WIDTH]);
  }
  const value = { input_ids: (at) => 1000 + 37 * at, attention_mask: () => 1, token_type_ids: () => 0 }[name];
  return new Tensor("int64", BigInt64Array.from({ length: TOKENS }, (_, at) => BigInt(value(at))), [1, TOKENS]);
}

export const inputs = (Tensor, { inputNames }) =>
  Object.fromEntries(inputNames.map((name) => [name, input(Tensor, name)]));

// The values of all outputs that are floats.
export function floats(outputs) {
  const isFloat = ([, { type }]) => type === "float32";
  const entries = Object.entries(outputs).filter(isFloat);
  return Object.fromEntries(entries.map(([name, { data }]) => [name, Array.from(data)]));
}
