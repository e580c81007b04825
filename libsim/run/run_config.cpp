#include "libsim/run/run_config.hpp"

#include "libsim/config/yaml_text.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

nlohmann::ordered_json sections_json(RunConfig const& config,
                                     nlohmann::ordered_json const& training) {
  nlohmann::ordered_json root;
  for (auto const& [key, section] : training.items()) {
    root[key] = section;
    if (key == "model") {
      root["system"] = to_json(config.system);
      root["software"] = to_json(config.system.software);
    }
  }
  return root;
}

}  // namespace

nlohmann::ordered_json to_json(RunConfig const& config) {
  return sections_json(config, to_json(settled_with_stack(config.training)));
}

std::string to_unsettled_yaml(RunConfig const& config) {
  return yaml_text(sections_json(config, to_json(config.training)));
}

std::string to_yaml(RunConfig const& config) { return yaml_text(to_json(config)); }

}  // namespace stagecraft
