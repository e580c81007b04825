#include "libsim/engine/ready_run.hpp"

#include <utility>

#include "libsim/engine/settle.hpp"
#include "libsim/hardware/provenance.hpp"

namespace stagecraft {

RunConfig ready_run(RunConfig run) {
  run.training = settled(std::move(run.training), run.system).get();
  if (auto warning = validation_warning(run.training, run.system))
    run.warnings.push_back(std::move(*warning));
  return run;
}

}  // namespace stagecraft
