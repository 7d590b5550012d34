// @ts-check
// `weightstream/certificates`: for service workers, which cannot load the script that verifies certificates later.
import * as chain from "./weightstream.chain.js";
import { provideCertificates } from "./weightstream.signature.js";

provideCertificates(chain);
