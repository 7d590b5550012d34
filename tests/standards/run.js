// Runs the cases of this folder in Node.js, with the package in the folder that the argument names. Prints the
// failures, and exits with 1 if there are any. A second argument selects cases whose name contains it.

import { pathToFileURL } from "node:url";
import { resolve } from "node:path";
import process from "node:process";
import { startServer } from "./server.js";

const [folder, selected = ""] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(resolve(folder, name)).href);
const failures = [];
let count = 0;

/** Runs a case, at most for ten seconds. */
async function attempt(test, given) {
  const late = new Promise((resolve) => setTimeout(resolve, 10_000, "still pending").unref());
  const run = async () => test(given);
  const outcome = run().catch((error) => `throws ${error?.name}: ${error?.message ?? error}`);
  return JSON.stringify(await Promise.race([outcome, late]));
}

async function check(name, run) {
  if (!name.includes(selected)) return;
  count++;
  const wrong = await run();
  if (wrong) failures.push(`${name}: ${wrong}`);
}

const { init } = await load("weightstream.node.js");
const { createFetch } = await load("weightstream.fetch.js");
await init();

const servers = [await startServer(), await startServer()];
const [one, other] = servers;
const { cases } = await import("./fetch_cases.js");
const ours = createFetch({ cache: "none", retry: { attempts: 1, baseDelay: 1 } });
for (const [name, test] of Object.entries(cases)) {
  await check(`fetch, ${name}`, async () => {
    const results = [];
    for (const fetch of [globalThis.fetch, ours]) {
      one.log.length = other.log.length = 0;
      const given = { fetch, at: (path) => one.origin + path, elsewhere: (path) => other.origin + path, log: one.log };
      results.push(await attempt(test, given));
    }
    const [expected, found] = results;
    if (/^"(throws|still pending)/.test(expected)) return `fetch itself: ${expected}`;
    return expected === found ? undefined : `createFetch gives ${found}, fetch ${expected}`;
  });
}

for (const module of ["blob_cases.js", "origins.js", "signals.js", "urls.js"]) {
  const { tests } = await import(`./${module}`);
  for (const [name, test] of Object.entries(await tests({ load, one, other }))) {
    await check(`${module}, ${name}`, async () => {
      const result = await attempt(test, {});
      return result === undefined || result === "true" ? undefined : result;
    });
  }
}

for (const failure of failures) console.log(failure);
console.log(`${count - failures.length} of ${count} cases passed`);
for (const server of servers) await server.close();
process.exit(failures.length > 0 ? 1 : 0);
