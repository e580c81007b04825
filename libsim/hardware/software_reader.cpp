#include "libsim/hardware/software_reader.hpp"

#include <stdexcept>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/constant_visitors.hpp"
#include "libsim/hardware/default_software.hpp"
#include "libsim/hardware/software_fields.hpp"

namespace stagecraft {
namespace {

Software read_default() {
  Diagnostics diagnostics;
  auto const root = parse_yaml(default_software_text, "megatron-2022.yaml", diagnostics);
  diagnostics.throw_if_any();
  Software software = read_software(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return software;
}

}  // namespace

Software read_software(ConfigNode const& section) {
  Software software;
  ConstantReader reader{section};
  visit_software(reader, software);
  reader.finish();
  return software;
}

nlohmann::ordered_json to_json(Software const& software) {
  ConstantWriter writer;
  visit_software(writer, software);
  return writer.map();
}

Software const& default_software() {
  static Software const software = read_default();
  return software;
}

}  // namespace stagecraft
