// What the examples of the documentation use without declaring it.

import type { OpenOptions, Source } from "weightstream";

declare global {
  var source: Source;
  var options: OpenOptions;
  var rootPem: string;
  // A button that the user clicks once, and the dialog in which the user chooses a folder.
  var button: { onclick: () => Promise<void> };
  function showDirectoryPicker(options: { mode: "readwrite" }): Promise<FileSystemDirectoryHandle>;
  // Objects of runtimes, in examples that are not run.
  var AutoModel: any;
  var bar: HTMLProgressElement;
  var faceapi: any;
  var tvm: any;
  function readFile(path: string): Promise<ArrayBuffer>;
  // The scope of a service worker.
  function addEventListener(type: "activate" | "fetch", listener: (event: any) => void): void;
  function skipWaiting(): Promise<void>;
  var clients: { claim(): Promise<void> };
}
