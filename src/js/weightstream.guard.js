// The net below everything that enters the WebAssembly module: calls, closures of promises and events, destructors. An exception
// that leaves the module, be it a trap or one of JavaScript's that came through it, has skipped what Rust would have put in order on
// its way: the instance is at its end, whatever it was doing. It is not entered again, and whoever waits is told.

let tell;
let panic; // what Rust said before it trapped

// `listener` is called at the end of an instance, with what ended it, once.
export function whenCrashed(listener) {
  tell = listener;
}

export function notePanic(what) {
  panic = what;
}

// What stops the requests of the instance, as long as anybody has it: should it end, nobody else would.
const requests = new Set();
const MANY_REQUESTS = 64;
let swept = MANY_REQUESTS; // how many there may be until those are looked for that are gone

export function noteRequest(controller) {
  if (typeof WeakRef === "undefined") return controller;
  if (requests.size >= swept) {
    for (const request of requests) if (!request.deref()) requests.delete(request);
    swept = Math.max(MANY_REQUESTS, 2 * requests.size);
  }
  requests.add(new WeakRef(controller));
  return controller;
}

function stopRequests() {
  for (const request of requests) request.deref()?.abort();
  requests.clear();
}

// Those by which JavaScript calls closures, and what it does when it collects garbage: nobody takes what they throw.
const UNWATCHED = /closures|^__wasm_bindgen_func_elem|^__wbindgen_destroy_closure$|^__wbg_.*_free$/;

// The exports of an instance, each of which ends it should it throw. `retire` has the glue take no closure and no object of it for
// one of the next instance's.
export function guard(exports, retire) {
  let end;
  const guarded = Object.create(null);
  const ended = (exception) => {
    if (end) return end;
    end = describe(exception, exports);
    retire();
    tell?.(end);
    stopRequests();
    return end;
  };
  for (const [name, value] of Object.entries(exports)) {
    if (typeof value !== "function") guarded[name] = value;
    else if (UNWATCHED.test(name)) guarded[name] = unwatched(value);
    else guarded[name] = call(value);
  }
  return guarded;

  function unwatched(enter) {
    return (...parameters) => {
      if (end) return 0;
      try {
        return enter(...parameters);
      } catch (exception) {
        ended(exception);
        return 0; // which the glue takes for any result
      }
    };
  }

  function call(enter) {
    return (...parameters) => {
      if (end) throw end.exception;
      try {
        return enter(...parameters);
      } catch (exception) {
        throw ended(exception).exception;
      }
    };
  }
}

// What ended the instance, and how many bytes it could not get, if it was that.
function describe(exception, exports) {
  const said = panic;
  panic = undefined;
  if (said !== undefined) return { exception, what: said };
  const bytes = failedAllocation(exports);
  const isTrap = exception instanceof WebAssembly.RuntimeError;
  const isMemory = bytes > 0 || (!isTrap && /memory|allocat|array length/i.test(exception?.message ?? exception));
  return { exception, what: String(exception?.message ?? exception), isMemory, bytes };
}

// It only reads a number, so that no state of the instance can do harm.
function failedAllocation(exports) {
  try {
    return exports.failedAllocation?.() >>> 0;
  } catch {
    return 0;
  }
}

// What a LoadError is made of.
export function crashFields({ exception, what, isMemory, bytes }, who, lost) {
  if (!isMemory) return {
    code: "INTERNAL",
    message: `${who} crashed, and ${lost} with it: ${what}. ` +
      "Open the model again, and please report this with the file that caused it.",
    cause: exception,
  };
  const much = bytes > 0 ? `${bytes} bytes could not be had` : what;
  return {
    code: "LIMIT",
    message: `${who} ran out of memory, and ${lost} was lost with it: ${much}. ` +
      "Close loaders and drop tensors that are not needed any more, or load less at a time (`maxMemory`), then open the model again.",
    cause: exception,
  };
}
