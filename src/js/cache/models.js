// @ts-check
// Which cached files belong to one model.

/** @import { CachedFile, CachedModel } from "../weightstream.js" */
/** @import { ListedFile, ModelFiles } from "../module/glue.js" */

/**
 * Groups cached files by their model. A file of two models, such as one that two revisions share, is in both groups. A
 * file of no other model is one itself, and so is a file that leads to others: no model can take over another one.
 *
 * @param {readonly ListedFile[]} files
 * @param {ModelFiles[]} found The files that lead to others.
 * @returns {CachedModel[]}
 */
export function groupByModel(files, found) {
  /** @type {Map<string, ListedFile[]>} */
  const byName = new Map();
  for (const file of files) byName.set(file.url, [...(byName.get(file.url) ?? []), file]);
  /** @type {Map<string, { parts: Set<string>, others: Set<string> }>} */
  const groups = new Map();
  const entries = new Set(found.map(([name]) => name));
  for (const [name, parts, others] of found) {
    const group = groups.get(name) ?? { parts: new Set([name]), others: new Set() };
    const isOwn = (/** @type {string} */ file) => file === name || !entries.has(file);
    for (const part of parts.filter(isOwn)) group.parts.add(part);
    for (const other of others.filter(isOwn)) {
      if (!group.parts.has(other)) group.others.add(other);
    }
    groups.set(name, group);
  }
  const claimed = new Set(Array.from(groups.values(), ({ parts, others }) => [...parts, ...others]).flat());
  for (const name of byName.keys()) {
    if (!claimed.has(name)) groups.set(name, { parts: new Set([name]), others: new Set() });
  }
  /** @type {Map<string, string>} */
  const modelOfFile = new Map();
  for (const [url, { parts, others }] of groups) {
    for (const name of [...parts, ...others]) modelOfFile.set(name, modelOfFile.get(name) ?? url);
  }
  /** @param {Set<string>} names */
  const filesOf = (names) => {
    const files = [...names].flatMap((name) => byName.get(name) ?? []);
    return files.map((file) => ({ ...file, model: modelOfFile.get(file.url) ?? file.url }));
  };
  const models = Array.from(groups, ([url, { parts, others }]) => modelOf(url, parts, filesOf(parts), filesOf(others)));
  return models.filter(({ files }) => files.length > 0);
}

/**
 * The names of the files to delete with a model: those that no other model has.
 *
 * @param {readonly CachedModel[]} models All cached models.
 * @param {string[]} names What the model may be named, or another file.
 * @param {readonly string[]} [listed] Files that the caller knows the model to have.
 */
export function ownFiles(models, names, listed = []) {
  const model = models.find(({ url }) => names.includes(url));
  const isModel = (/** @type {CachedModel} */ other) => names.includes(other.url) || listed.includes(other.url);
  const shared = new Set(models.filter((other) => !isModel(other)).flatMap(({ files }) => files.map(({ url }) => url)));
  const files = [...(model?.files ?? []).map(({ url }) => url), ...listed];
  return [...new Set([...names, ...files.filter((url) => !shared.has(url))])];
}

/**
 * @param {string} url
 * @param {Set<string>} parts The names of the files of the model.
 * @param {CachedFile[]} cached Those that are cached.
 * @param {CachedFile[]} others Files that only updates of the model need.
 * @returns {CachedModel}
 */
function modelOf(url, parts, cached, others) {
  /** @type {Map<string, number>} */
  const lengths = new Map();
  for (const { url, byteLength } of cached) {
    if (byteLength !== undefined) lengths.set(url, byteLength);
  }
  const files = [...cached, ...others];
  const byteLength = [...lengths.values()].reduce((sum, length) => sum + length, 0);
  return {
    url,
    files,
    cachedBytes: files.reduce((sum, { cachedBytes }) => sum + cachedBytes, 0),
    byteLength: lengths.size === parts.size ? byteLength : undefined,
    lastUsed: new Date(Math.max(...files.map(({ lastUsed }) => lastUsed.getTime()))),
  };
}
