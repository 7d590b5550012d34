// @ts-check
// `weightstream/certificates`: for service workers, which cannot load the script that verifies certificates later.
import * as chain from "./chain.js";
import { certificatesScript } from "./signature.js";

certificatesScript.provide(chain);
