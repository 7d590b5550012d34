// What the package says about each of the cases in `tests/fixtures/signatures`.

const SITE = "https://example.org/m/";
const MODEL = "model.safetensors";

/**
 * The code for each case that differs from what it must be, which is a list of lines. `openModel` is
 * `StreamingLoader.open` of the package.
 */
export async function wrongVerdicts(openModel, cases, model, publicKey) {
  const wrong = [];
  for (const { name, code, bundle } of cases) {
    const found = await verdict(openModel, bundle, model, publicKey);
    if (found !== code) wrong.push(`${name}: ${found} instead of ${code}`);
  }
  return wrong;
}

async function verdict(openModel, bundle, model, publicKey) {
  const files = { [MODEL]: model, "model.sig": typeof bundle === "string" ? bundle : JSON.stringify(bundle) };
  const fetch = async (url) => new Response(files[String(url).slice(SITE.length)]);
  try {
    const options = { fetch, cache: "none", signature: { url: `${SITE}model.sig`, publicKey } };
    (await openModel(SITE + MODEL, options)).close();
    return "ok";
  } catch ({ code, message }) {
    const advisesOtherwise = code === "UNSUPPORTED" && /Convert| --/.test(message);
    return advisesOtherwise ? message : code ?? message;
  }
}
