// The request policy: headers and credentials of a call reach only the origins that they were given for. Two servers
// are two origins. The page is at the first one, where a test says so.

const TOKEN = { Authorization: "Bearer secret", "X-Token": "secret" };

export async function tests({ load, one, other }) {
  const { LoadError, openFile } = await load("weightstream.js");
  const { createFetch } = await load("weightstream.fetch.js");
  const { connect } = await load("weightstream.transformers.js");
  const { ioHandler } = await load("weightstream.tfjs.js");
  const { ArtifactCache, prefill } = await load("weightstream.tvmjs.js");
  const { modelBlobs } = await load("weightstream.wllama.js");
  const { externalData } = await load("weightstream.onnxruntime.js");
  const cache = "none";
  const retry = { attempts: 1, baseDelay: 1 };

  /** Which of the servers have seen which token, as "one: Authorization". */
  const seen = () => [["one", one], ["other", other]].flatMap(([name, { log }]) =>
    ["authorization", "x-token"].filter((header) => log.some(({ headers }) => headers[header] !== undefined))
      .map((header) => `${name}: ${header}`));

  /** Whether a call sends the tokens to these servers only, and requests something from both. */
  const sends = (wanted, call) => async () => {
    one.log.length = other.log.length = 0;
    await call();
    const expected = wanted.flatMap((name) => [`${name}: authorization`, `${name}: x-token`]).join();
    if (one.log.length === 0 || other.log.length === 0) throw new Error("a server got no request");
    return seen().join() === expected || `${seen()} instead of ${expected}`;
  };

  /** Runs with the first server as the origin of the page. */
  const onPage = (call) => async () => {
    Object.defineProperty(globalThis, "location", { value: new URL(`${one.origin}/page`), configurable: true });
    try {
      return await call();
    } finally {
      delete globalThis.location;
    }
  };

  const refuses = (call) => async () => {
    const error = await (async () => call())().catch((error) => error);
    return (error instanceof LoadError && error.code === "INVALID_ARGUMENT" && /`origins`/.test(error.message)) ||
      `${error}`;
  };

  const [atOne, atOther] = [one, other].map(({ origin }) => (path) => origin + path);
  const fetchBoth = async (fetch, init) => {
    for (const at of [atOne, atOther]) await (await fetch(at("/file"), init)).arrayBuffer();
  };
  const options = { headers: TOKEN, credentials: "include", cache, retry };
  const origins = [other.origin];
  const env = () => ({ fetch: (...call) => fetch(...call), useBrowserCache: true });
  const connected = async (options) => {
    const settings = env();
    const disconnect = connect(settings, options);
    await fetchBoth(settings.fetch);
    for (const at of [atOne, atOther]) {
      await (await settings.fetch(at("/file"), { headers: { Range: "bytes=0-0" }, cache: "no-store" })).arrayBuffer();
    }
    disconnect();
  };
  const artifacts = async (options) => {
    const artifacts = new ArtifactCache(options);
    for (const at of [atOne, atOther]) await artifacts.fetchWithCache(at("/file"), "arraybuffer");
    for (const at of [atOne, atOther]) await artifacts.addToCache(at("/json"), "json");
    await artifacts.hasAllKeys([atOne("/file"), atOther("/file")]);
  };
  const tfModel = (at) => `${at("/text")}?text=${encodeURIComponent(JSON.stringify({
    weightsManifest: [{ paths: ["w"], weights: [{ name: "w", shape: [4], dtype: "uint8", quantization: undefined }] }],
  }))}`;
  const tf = (options) => ioHandler(tfModel(atOne), {
    ...options, weightUrlConverter: () => atOther("/text?text=1234567890123456"), streamWeights: false,
  }).load().catch(() => {});
  const blobs = async (options) => (await modelBlobs([atOne("/file"), atOther("/file")], options)).close();
  const opened = async (url, init = options) => {
    const file = await openFile(url, init);
    await externalData(file, "weights.bin").then(([{ data }]) => data.slice(100, 200).arrayBuffer());
    file.close();
  };
  /** Answers a request from each origin, as a service worker of the first one. */
  const served = async (options) => {
    const listeners = [];
    const scope = {
      registration: {}, skipWaiting: () => {}, addEventListener: (_, listener) => listeners.push(listener),
    };
    for (const [name, value] of Object.entries(scope)) {
      Object.defineProperty(globalThis, name, { value, configurable: true });
    }
    try {
      const { serve } = await load("weightstream.service-worker.js");
      const source = ({ pathname }) => (pathname === "/json" ? atOther : atOne)("/file");
      serve({ ...options, match: () => true, source });
      for (const path of ["/file", "/json"]) {
        const event = {
          request: new Request(atOne(path)), waitUntil: () => {}, respondWith: (answer) => (event.answer = answer),
        };
        for (const listener of listeners) listener(event);
        await (await event.answer).arrayBuffer();
      }
    } finally {
      for (const name of Object.keys(scope)) delete globalThis[name];
    }
  };
  const redirect = (from, to) => from(`/redirect?to=${encodeURIComponent(to("/file"))}`);

  return {
    "createFetch sends them to the origin of the page":
      onPage(sends(["one"], () => fetchBoth(createFetch(options)))),
    "createFetch sends them to `origins`": sends(["other"], () => fetchBoth(createFetch({ ...options, origins }))),
    "createFetch sends them to `origins` in place of the page":
      onPage(sends(["other"], () => fetchBoth(createFetch({ ...options, origins })))),
    "createFetch without a page needs `origins`": refuses(() => createFetch(options)),
    "createFetch without a page needs `origins` for credentials":
      refuses(() => createFetch({ credentials: "include" })),
    "createFetch without a page needs no `origins` for nothing": () =>
      Boolean(createFetch({ headers: {}, credentials: "omit" })),
    "createFetch takes only origins": refuses(() => createFetch({ ...options, origins: ["https://example.org/path"] })),
    "createFetch takes no wildcard": refuses(() => createFetch({ ...options, origins: ["*"] })),
    "openFile takes no `origins`": refuses(() => openFile(atOne("/file"), { ...options, origins })),
    ...Object.fromEntries(["HEAD", "POST", "DELETE"].map((method) => [`createFetch sends them with ${method}`,
      sends(["other"], () => fetchBoth(createFetch({ ...options, origins }), { method }))])),
    ...Object.fromEntries([
      ["several ranges", { headers: { Range: "bytes=0-1,4-5" } }], ["a range", { headers: { Range: "bytes=5-9" } }],
      ["integrity", { integrity: "md5-0" }], ["redirect", { redirect: "error" }],
    ].map(([name, init]) => [`createFetch sends them with ${name}`,
      sends(["other"], () => fetchBoth(createFetch({ ...options, origins }), init))])),
    "headers of a call go to its URL": sends(["one"], async () => {
      const fetch = createFetch({ cache });
      await (await fetch(atOne("/file"), { headers: TOKEN })).arrayBuffer();
      await (await fetch(atOther("/file"))).arrayBuffer();
    }),
    "headers of a call take precedence": async () => {
      one.log.length = 0;
      const fetch = createFetch({ ...options, origins: [one.origin] });
      for (const method of ["GET", "POST"]) {
        await (await fetch(atOne("/echo"), { method, headers: { "X-Token": "own" } })).text();
      }
      return one.log.every(({ headers }) => headers["x-token"] === "own" && headers.authorization === "Bearer secret");
    },
    "connect of transformers.js sends them to the origin of the page": onPage(sends(["one"], () => connected(options))),
    "connect of transformers.js sends them to `origins`": sends(["other"], () => connected({ ...options, origins })),
    "connect without a page needs `origins`": refuses(() => connect(env(), options)),
    "ioHandler sends them to the origin of the model": sends(["one"], () => tf(options)),
    "ioHandler sends them to `origins`": sends(["other"], () => tf({ ...options, origins })),
    "ArtifactCache sends them to the origin of the page": onPage(sends(["one"], () => artifacts(options))),
    "ArtifactCache sends them to `origins`": sends(["other"], () => artifacts({ ...options, origins })),
    "ArtifactCache without a page needs `origins`": refuses(() => new ArtifactCache(options)),
    "modelBlobs sends them to the origin of the first URL": sends(["one"], () => blobs(options)),
    "modelBlobs sends them to `origins`": sends(["other"], () => blobs({ ...options, origins })),
    "openFile and externalData send them to the origin of the URL": sends(["one"], async () => {
      await opened(atOne("/file"));
      await opened(atOther("/file"), { cache });
    }),
    "openFile sends Authorization to no origin that it is redirected to": async () => {
      one.log.length = other.log.length = 0;
      await opened(redirect(atOne, atOther), { headers: { Authorization: "Bearer secret" }, cache });
      return other.log.length > 0 && seen().join() === "one: authorization";
    },
    "createFetch sends Authorization to no origin that it is redirected to": async () => {
      one.log.length = other.log.length = 0;
      const fetch = createFetch({ headers: { Authorization: "Bearer secret" }, origins: [one.origin], cache });
      await (await fetch(redirect(atOne, atOther))).arrayBuffer();
      return other.log.length > 0 && seen().join() === "one: authorization";
    },
    "a redirect from another origin gets nothing": sends(["one"], async () => {
      const fetch = createFetch({ ...options, origins: [one.origin] });
      await (await fetch(atOne("/file"))).arrayBuffer();
      one.log.length = 0;
      await (await fetch(redirect(atOther, atOne))).arrayBuffer();
      if (seen().length > 0) throw new Error(`${seen()} behind a redirect of another origin`);
      await (await fetch(atOne("/file"))).arrayBuffer();
    }),
    ...Object.fromEntries([["one", undefined], ["other", origins]].map(([name, origins]) => [
      `serve sends them to ${origins ? "`origins`" : "its own origin"}`,
      onPage(sends([name], () => served({ ...options, ...(origins && { origins }) }))),
    ])),
    "prefill sends them to the origin of the model": async () => {
      const stored = new Map();
      const match = async (url) => stored.get(String(url))?.clone();
      const put = async (url, response) => void stored.set(String(url), new Response(await response.arrayBuffer()));
      const caches = { open: async () => ({ match, put }) };
      Object.defineProperty(globalThis, "caches", { value: caches, configurable: true });
      try {
        return await sends(["one"], () => prefill({
          model: atOne("/m/resolve/main/"), model_lib: atOther("/file"),
        }, options).catch(() => fetch(atOther("/file"))))();
      } finally {
        delete globalThis.caches;
      }
    },
  };
}
