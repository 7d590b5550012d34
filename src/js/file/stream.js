// @ts-check
// Byte streams, which BYOB readers can read into their own buffers.

/** @typedef {AsyncGenerator<Uint8Array<ArrayBuffer>, void, void>} Pieces Bytes in pieces, which must be copied. */

/**
 * A byte stream of pieces that are copied: into the buffer of a BYOB reader if there is one.
 *
 * @param {(signal: AbortSignal) => Pieces} begin Starts to read when the first bytes are requested. The signal aborts
 *   when the stream is cancelled.
 * @returns {ReadableStream<Uint8Array<ArrayBuffer>>}
 */
export function byteStream(begin) {
  const controller = new AbortController();
  /** @type {Pieces | undefined} */
  let pieces;
  /** @type {Uint8Array<ArrayBuffer>} */
  let piece = new Uint8Array(0);
  return byteStreamOf({
    async pull(stream) {
      pieces ??= begin(controller.signal);
      while (piece.length === 0) {
        const { value, done } = await pieces.next();
        if (done) {
          stream.close();
          stream.byobRequest?.respond(0);
          return;
        }
        piece = value;
      }
      const view = stream.byobRequest?.view;
      const length = Math.min(piece.length, view?.byteLength ?? piece.length);
      if (view) {
        new Uint8Array(view.buffer, view.byteOffset, length).set(piece.subarray(0, length));
        stream.byobRequest?.respond(length);
      } else {
        stream.enqueue(piece.slice(0, length));
      }
      piece = piece.subarray(length);
    },
    cancel(reason) {
      controller.abort(reason);
      pieces?.return().catch(() => {}); // ends a read that waits for the next request; the others end by the signal
    },
  });
}

/**
 * The same stream, which calls `close` at its end, on an error, and when it is cancelled. The signal is one of these
 * errors, even while nothing is read.
 *
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 * @param {() => void} close
 * @param {AbortSignal | null} [signal]
 * @returns {ReadableStream<Uint8Array<ArrayBuffer>>}
 */
export function closing(stream, close, signal) {
  const reader = stream.getReader();
  /** @type {ReadableStreamController<any>} */
  let closed;
  const end = () => {
    signal?.removeEventListener("abort", abort);
    close();
  };
  const abort = () => {
    closed.error(signal?.reason);
    reader.cancel(signal?.reason).catch(() => {}); // it has failed already
    end();
  };
  return byteStreamOf({
    start(controller) {
      closed = controller;
      if (signal?.aborted) abort();
      else signal?.addEventListener("abort", abort);
    },
    async pull(controller) {
      try {
        const { value, done } = await reader.read();
        if (signal?.aborted) return;
        if (!done) return controller.enqueue(value);
        end();
        controller.close();
        controller.byobRequest?.respond(0);
      } catch (error) {
        end();
        throw error;
      }
    },
    async cancel(reason) {
      await reader.cancel(reason);
      end();
    },
  });
}

/**
 * A byte stream; an ordinary stream in browsers without byte streams.
 *
 * @param {Omit<UnderlyingByteSource, "type" | "pull"> & {
 *   pull(controller: ReadableByteStreamController): Promise<void>,
 * }} source
 * @returns {ReadableStream<Uint8Array<ArrayBuffer>>}
 */
function byteStreamOf(source) {
  try {
    return new ReadableStream({ ...source, type: "bytes" });
  } catch {
    return new ReadableStream(/** @type {any} */ (source), { highWaterMark: 0 });
  }
}
