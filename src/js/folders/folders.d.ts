/**
 * Folders of the user as caches: real files with their names, which other programs use, too.
 *
 * @module weightstream/folders
 */
import type { FolderHandle, StorageBucketOption } from "../weightstream.js";

/**
 * Remembers a folder that the user has chosen, in IndexedDB, in place of the one that had this name before. The page
 * may need the user's permission again at the next visit: see {@link allowFolder}. Rejects with `IO` if the browser has
 * no IndexedDB.
 *
 * `name` distinguishes several folders of one app.
 */
export function rememberFolder(folder: FolderHandle, name?: string): Promise<void>;

/** The remembered folder of this name, or `undefined`. Rejects with `IO` if the browser has no IndexedDB. */
export function rememberedFolder(name?: string): Promise<FolderHandle | undefined>;

/** Forgets the folder of this name. Its files stay. Rejects with `IO` if the browser has no IndexedDB. */
export function forgetFolder(name?: string): Promise<void>;

/**
 * Whether the page may write to a folder. With `"prompt"`, it must call {@link allowFolder} first. Asks nothing of the
 * user.
 */
export function folderPermission(folder: FolderHandle): Promise<"granted" | "denied" | "prompt">;

/**
 * Asks the user for the permission to write to a folder, unless the page has it, and resolves to whether it has it
 * then. Call it when the user clicks, before anything is awaited: browsers do not ask at other times, and the call
 * rejects with a `SecurityError`.
 */
export function allowFolder(folder: FolderHandle): Promise<boolean>;

/** A file that weightstream has in a folder, complete or in part. */
export interface FolderFile {
  /** The URL without its fragment and its signature, or the name that `cacheKey` returned. */
  readonly url: string;
  /** The path of the complete file in the folder. `undefined` for a part of a file, and in a storage bucket. */
  readonly path: string | undefined;
  /** The number of bytes of the file that are stored. */
  readonly cachedBytes: number;
  /** The length of the whole file; `undefined` if the server did not report it. */
  readonly byteLength: number | undefined;
  /** When the file was last opened. */
  readonly lastUsed: Date;
}

/**
 * Lists the files that weightstream has in a folder or a storage bucket, for each of the credentials that they were
 * loaded with. Other files of the folder are not listed. Rejects with `IO` if the folder cannot be read, or if the page
 * may not write to it.
 */
export function folderFiles(place: FolderHandle | StorageBucketOption): Promise<readonly FolderFile[]>;

/**
 * Deletes the file of a URL from a folder or a storage bucket, for all credentials. A file that another program has
 * changed is no longer one of weightstream, and stays. Rejects with `IO` as {@link folderFiles} does.
 */
export function deleteFromFolder(place: FolderHandle | StorageBucketOption, url: string | URL): Promise<void>;

/**
 * Deletes all files that weightstream has in a folder or a storage bucket. Files of the user, and those that another
 * program has changed, stay. Rejects with `IO` as {@link folderFiles} does.
 */
export function clearFolder(place: FolderHandle | StorageBucketOption): Promise<void>;
