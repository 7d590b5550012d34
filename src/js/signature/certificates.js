// @ts-check
// `weightstream/certificates`: for service workers, which cannot load the script that verifies certificates later.
import * as chain from "./chain.js";
import { provideCertificates } from "./signature.js";

provideCertificates(chain);
