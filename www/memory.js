// @ts-check
// How much memory the browser attributes to workers of this page.

/**
 * What `performance.measureUserAgentSpecificMemory()` resolves to. TypeScript's library does not have it.
 *
 * @typedef {{ breakdown: { bytes: number, attribution: { url: string }[] }[] }} Measurement
 */

/**
 * The bytes of each worker, by the URL of its script; `undefined` if the browser does not tell. The browser measures
 * when it collects garbage, so this may take 20 seconds.
 *
 * @param {string[]} urls
 * @returns {Promise<number[] | undefined>}
 */
export async function memoryOf(urls) {
  const browser = /** @type {{ measureUserAgentSpecificMemory?: () => Promise<Measurement> }} */ (performance);
  try {
    const measurement = await browser.measureUserAgentSpecificMemory?.();
    return measurement && urls.map((url) => bytesOf(measurement, url));
  } catch {
    // A page that is not cross-origin isolated may not measure.
    return undefined;
  }
}

/**
 * @param {Measurement} measurement
 * @param {string} url
 */
function bytesOf({ breakdown }, url) {
  const own = breakdown.filter(({ attribution }) => attribution.some((place) => place.url === url));
  return own.reduce((sum, { bytes }) => sum + bytes, 0);
}
