// The one error class, and what makes one.

// Not among the package's exports, so that nobody else can call the constructors.
export const MAKE = Symbol("make");

export class LoadError extends Error {
  constructor(make, { message, code, url, tensor, range, status, cause }) {
    if (make !== MAKE) throw new TypeError("Only weightstream makes a LoadError.");
    super(message, cause === undefined ? undefined : { cause });
    Object.assign(this, { code, url, tensor, range, status });
  }

  get name() {
    return "LoadError";
  }
}

export const fail = (fields) => new LoadError(MAKE, fields);

// What the caller did wrong, in half a sentence.
export const invalid = (what, cause) => fail({ code: "INVALID_ARGUMENT", message: `${what}. Correct the call.`, cause });
