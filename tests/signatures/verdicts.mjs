// Prints the verdicts of the package that are wrong: node verdicts.mjs PACKAGE FIXTURES
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { wrongVerdicts } from "./verdicts.js";

const [entry, fixtures] = process.argv.slice(2);
const { StreamingLoader } = await import(pathToFileURL(entry));
const text = (name) => readFile(join(fixtures, name), "utf8");
const model = await readFile(join(fixtures, "m/model.safetensors"));
const openModel = (url, options) => StreamingLoader.open(url, options);

const reported = { good: "ok", hint: "SIGNATURE", sharded_name: "SIGNATURE", media: "UNSUPPORTED" };
const named = [];
for (const [name, code] of Object.entries(reported)) named.push({ name, code, bundle: await text(`${name}.sig`) });

const cases = JSON.parse(await text("cases.json"));
const wrong = [
  ...(await wrongVerdicts(openModel, cases, model, await text("signing.pem"))),
  ...(await wrongVerdicts(openModel, named, model, await text("pub.pem"))),
];
console.log(wrong.length > 0 ? wrong.join("\n") : `${cases.length + named.length} verdicts are right`);
