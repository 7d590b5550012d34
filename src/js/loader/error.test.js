import assert from "node:assert/strict";
import { test } from "node:test";
import { LoadError, MAKE, fail, invalid } from "./error.js";

test("an error has the fields of its failure", () => {
  const cause = new Error("reset");
  const where = { url: "https://a.test/", tensor: "w", range: [0, 8] };
  const fields = { code: "HTTP", message: "no", ...where, status: 404, cause };
  const error = fail(fields);
  for (const [name, value] of Object.entries(fields)) assert.equal(error[name], value, name);
  assert.ok(error instanceof LoadError && error instanceof Error);
});

test("an error is shown as a LoadError, without a property of its own for that", () => {
  const error = fail({ code: "FORMAT", message: "bad" });
  assert.equal(String(error), "LoadError: bad");
  assert.equal(Object.hasOwn(error, "name"), false);
  assert.equal(Object.hasOwn(error, "cause"), false);
});

test("only the package can create errors", () => {
  assert.throws(() => new LoadError(Symbol("make"), { code: "FORMAT", message: "" }), TypeError);
  assert.ok(new LoadError(MAKE, { code: "FORMAT", message: "" }));
});

test("a message about an argument is a sentence", () => {
  assert.equal(invalid("`a` is wrong").message, "`a` is wrong.");
  assert.equal(invalid("there is no `b`: did you mean `a`?").message, "there is no `b`: did you mean `a`?");
  assert.equal(invalid("`a` is wrong").code, "INVALID_ARGUMENT");
});
