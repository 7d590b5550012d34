// Run by workerd, the runtime of Cloudflare Workers. It compiles no WebAssembly while it runs: the module is imported
// and passed to `init`. Loads the model that the request names.

import { StreamingLoader, cachedBytes, clearCache, init } from "weightstream";
import module from "weightstream/weightstream_bg.wasm";
import { check } from "./check.js";

export default {
  async fetch(request) {
    await init(module);
    const { searchParams } = new URL(request.url);
    const [url, matrix] = ["url", "matrix"].map((name) => searchParams.get(name));
    const loaded = check({ StreamingLoader, cachedBytes, clearCache }, url, matrix);
    return Response.json(await loaded.catch((error) => ({ error: error.stack })));
  },
};
