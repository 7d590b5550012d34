// Rules that readers rarely check: sparse indices, padding and reserved fields.
import { Failures } from "./common.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const MODES = [{}, { workers: 2 }, { inWorker: true }];

const WRONG_INDICES = [
  ["sparse_index.zt", "rows", "element 1 of `indices` is 5, but must be below 5"],
  ["sparse_negative.zt", "rows", "element 1 of `indices` is negative"],
  ["sparse_first.zt", "rows", "element 0 of `indptr` is 1, but must be 0"],
  ["sparse_order.zt", "rows", "element 2 of `indptr` is 2, but must not be below the previous one, 3"],
  ["sparse_coords.zt", "points", "element 1 of `coords` is 2, but must be below 2"],
];

const WARNINGS = [
  ["padding.zt", "108 bytes of padding are not zero"],
  ["padding_zero.zt", null],
  ["reserved.aero", "3 reserved fields are not zero"],
  ["reserved.weights", "the reserved flags 0x30 are set"],
];

const open = (path, mode) => StreamingLoader.open(`/fixtures/rules/${path}`, { cache: "none", ...mode });

export async function wrongIndicesOfSparseTensorsAreRejected() {
  const failures = new Failures();
  for (const mode of MODES) {
    for (const [path, name, ...message] of WRONG_INDICES) {
      const loader = await open(path, mode);
      const what = `${path} ${JSON.stringify(mode)}`;
      await failures.rejects(`${what}: loadTensor`, loader.loadTensor(name), "FORMAT", name, ...message);
      await failures.rejects(`${what}: verify`, loader.verify(), "FORMAT", name, ...message);
      loader.close();
    }
    const loader = await open("sparse_valid.zt", mode);
    await failures.rejects("valid", loader.loadTensor("rows"), "no error");
    await failures.rejects("valid", loader.verify(), "no error");
    loader.close();
  }
  return failures;
}

export async function brokenRulesAreWarningsAfterVerify() {
  const failures = new Failures();
  for (const mode of MODES) {
    for (const [path, warning] of WARNINGS) {
      const loader = await open(path, mode);
      await loader.verify();
      const warnings = await loader.warnings();
      const what = `${path} ${JSON.stringify(mode)}: ${JSON.stringify(warnings)}`;
      failures.same(what, warnings.some((text) => text.includes(warning)), warning !== null);
      if (warning === null) failures.same(what, warnings.length, 0);
      loader.close();
    }
  }
  return failures;
}
