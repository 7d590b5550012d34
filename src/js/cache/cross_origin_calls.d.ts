// What the module calls to use Cross-Origin Storage, and the parts of its interface that are used.

/** The calls of `src/source/cross_origin/storage.rs`. A SHA-256 is 64 lower-case hexadecimal digits. */
export interface CrossOriginCalls {
  /** The file; undefined if there is none. */
  find(sha256: string): Promise<File | undefined>;
  /** The file that was found has the right bytes. */
  accept(): void;
  /** No file was looked up, because its SHA-256 is not known. */
  countUnknown(): void;
  /** Why a file was not read, or not stored. */
  note(reason: string): void;
  /** Begins to store a file when no other one is being stored. False if it is not stored. */
  begin(sha256: string): Promise<boolean>;
  /** Stores the next bytes. False if that failed. */
  write(sha256: string, bytes: Uint8Array<ArrayBuffer>): Promise<boolean>;
  /** Stores a complete file, or forgets what was written. */
  end(sha256: string, isComplete: boolean): Promise<void>;
}

/** What the module gets as the option `crossOriginStorage`. */
export interface CrossOriginAccess {
  /** Calls one of `CrossOriginCalls`. */
  call: (method: any, ...args: any[]) => any;
  /** Whether files that are not found are stored. */
  isWritten: boolean;
}

/** A handle of a file in Cross-Origin Storage. */
export interface CrossOriginHandle {
  getFile(): Promise<File>;
  createWritable(): Promise<CrossOriginWritable>;
}

export interface CrossOriginWritable {
  write(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  close(): Promise<void>;
  abort(): Promise<void>;
}
