// @ts-check
// `weightstream/fetch`: a drop-in `fetch` that resumes, verifies and caches.
import { requester } from "./requester.js";

/** @import * as Api from "./fetch.js" */

/** @type {typeof Api.createFetch} */
export const createFetch = (options) => requester(options);
