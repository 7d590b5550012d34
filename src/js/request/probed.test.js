import assert from "node:assert/strict";
import { test } from "node:test";
import { ProbedFiles } from "./probed.js";

const URL = "https://a.test/m";
const headers = (value) => new Headers({ Authorization: value });

test("a probed file is taken once, by a request with the same headers", () => {
  const files = new ProbedFiles();
  const one = opened();
  files.keep(URL, headers("a"), one);
  assert.equal(files.take(URL, headers("b")), undefined);
  assert.equal(files.take(`${URL}2`, headers("a")), undefined);
  assert.equal(files.take(URL, headers("a")), one);
  assert.equal(files.take(URL, headers("a")), undefined);
  assert.equal(one.closed, 0);
});

test("a second probe closes the file of the first one", () => {
  const files = new ProbedFiles();
  const [one, other] = [opened(), opened()];
  files.keep(URL, headers("a"), one);
  files.keep(URL, headers("a"), other);
  assert.deepEqual([one.closed, other.closed], [1, 0]);
  files.close();
  assert.equal(other.closed, 1);
  assert.equal(files.take(URL, headers("a")), undefined);
});

test("a file that is not taken is closed after a while", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const files = new ProbedFiles();
  const one = opened();
  files.keep(URL, headers("a"), one);
  t.mock.timers.tick(30_000);
  assert.equal(one.closed, 1);
});

function opened() {
  const found = { closed: 0, url: URL, head: undefined, file: { close: () => found.closed++ } };
  return found;
}
