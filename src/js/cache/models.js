// @ts-check
// Which cached files belong to one model.

/** @import { CachedFile, CachedModel } from "../weightstream.js" */
/** @import { ListedFile, ModelFiles } from "../module/glue.js" */

/**
 * Groups cached files by their model. A file of two models, such as one that two revisions share, is in both groups. A
 * file of no other model is one itself.
 *
 * @param {readonly ListedFile[]} files
 * @param {ModelFiles[]} found What files lead to others.
 * @returns {CachedModel[]}
 */
export function groupByModel(files, found) {
  /** @type {Map<string, ListedFile[]>} */
  const byName = new Map();
  for (const file of files) byName.set(file.url, [...(byName.get(file.url) ?? []), file]);
  /** @type {Map<string, { parts: Set<string>, others: Set<string> }>} */
  const groups = new Map();
  for (const [name, parts, others] of found) {
    // Each file of a numbered set leads to all of them, of which the first is opened.
    const [first = name] = parts.includes(name) ? parts : [name];
    const group = groups.get(first) ?? { parts: new Set([first]), others: new Set() };
    for (const part of parts) group.parts.add(part);
    for (const other of others) group.others.add(other);
    groups.set(first, group);
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
 * The names of the files that belong to a model alone, or the name itself if it is not that of a model.
 *
 * @param {readonly CachedModel[]} models
 * @param {string[]} names What the model may be named.
 */
export function ownFiles(models, names) {
  const model = models.find(({ url }) => names.includes(url));
  const shared = new Set(models.filter((other) => other !== model).flatMap(({ files }) => files.map(({ url }) => url)));
  const own = model ? model.files.map(({ url }) => url).filter((url) => !shared.has(url)) : [];
  return [...new Set([...names, ...own])];
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
