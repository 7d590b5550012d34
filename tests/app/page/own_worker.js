// The script of a worker that an app brings, as the documentation of `web::set_worker` shows it.
import { initSync, weightstreamServe } from "/pkg/app_test.js";

onmessage = ({ data: [module, role] }) => {
  initSync({ module });
  weightstreamServe(role);
};
