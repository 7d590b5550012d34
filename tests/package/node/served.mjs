// Run by Node.js, Deno and Bun: the open files of a service worker, with a server that the user logs out of. Prints how
// requests were answered as JSON. It needs a part of the package that is no entry point of it.

import process from "node:process";
import "../parts/weightstream.node.js";
import { ServedFiles } from "../parts/served.js";

let now = 0;
Object.defineProperty(performance, "now", { value: () => now });

const URL = "https://app.test/model.bin";
let isLoggedIn = true;
let requests = 0;
const fetch = async () => {
  requests++;
  if (!isLoggedIn) return new Response(null, { status: 401 });
  return new Response("weights", { headers: { "Content-Length": "7" } });
};
const files = new ServedFiles();

/** Polls the file as a client that does not wait for long between two requests. */
async function answer(cookies) {
  const entry = files.join(URL, { fetch, cache: "none", retry: { attempts: 0 } }, false, cookies);
  try {
    await entry.opening;
    return 200;
  } catch (error) {
    return error.response.status;
  } finally {
    files.leave(entry);
  }
}

const before = [await answer(), await answer()];
const requestsBefore = requests;
isLoggedIn = false;
const after = [];
for (let polls = 0; polls < 10; polls++) {
  now += 1000;
  after.push(await answer());
}
isLoggedIn = true;
const again = await answer("session=1");
isLoggedIn = false;
const otherCookies = await answer("");
console.log(JSON.stringify({ before, requestsBefore, after, again, otherCookies }));
process.exit(); // a file stays open for some seconds after its last request
