#include "libsim/run/run_tree.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "libsim/config/section_reader.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/hardware/software_reader.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/plan/training_config_reader.hpp"
#include "libsim/run/file_kind.hpp"
#include "libsim/run/paper_config_folder.hpp"
#include "libsim/run/run_time_limit.hpp"

namespace stagecraft {
namespace {

/// The sections that may be the name of a file.
constexpr std::array<char const*, 3> reference_keys{"model", "system", "software"};

/// The file that a reference names, relative to the run file, or from an override also to the
/// current folder. A stack may be named without its folder, as `nanotron`.
std::filesystem::path resolve(YamlNode const& reference,
                              std::string const& key,
                              std::filesystem::path const& folder) {
  if (key == "software" && reference.text.find_first_of("./") == std::string::npos) {
    return config_folder() / "software" / (reference.text + ".yaml");
  }
  std::filesystem::path const beside = folder / reference.text;  // absolute if the reference is
  std::error_code ignored;
  bool const is_override = reference.place.line == 0;
  return is_override && !std::filesystem::exists(beside, ignored)
             ? std::filesystem::path{reference.text}
             : beside;
}

/// Elements of the stack's buckets.
std::int64_t default_bucket(RunConfig const& config) {
  ReplicaTraffic const& replicas = config.system.software.replicas;
  std::int64_t const own = element_size(gradient_type(config.training.model.precision));
  std::int64_t const size = replicas.gradient_bytes.value > 0 ? replicas.gradient_bytes.value : own;
  return replicas.bucket.value.count() / size;
}

}  // namespace

std::map<std::string, std::string, std::less<>> const& run_word_keys() {
  static std::map<std::string, std::string, std::less<>> const keys{{"schedule", "kind"},
                                                                    {"recompute", "granularity"}};
  return keys;
}

bool open_reference(YamlNode& section,
                    std::string const& key,
                    std::filesystem::path const& folder,
                    Diagnostics& diagnostics) {
  bool const may_name_file =
      std::find(reference_keys.begin(), reference_keys.end(), key) != reference_keys.end();
  if (!may_name_file || section.kind != YamlNode::Kind::scalar) return true;
  // Looking up a text that cannot be a path would throw.
  if (section.text.empty() || section.text.find('\0') != std::string::npos) {
    diagnostics.add({section.place, key, "'" + printable(section.text) + "'",
                     "a map, or the name of a YAML file"});
    return false;
  }
  auto content = parse_yaml_file(resolve(section, key, folder), section.place, key, diagnostics);
  if (!content) {
    diagnostics.mark_unsound(key);
    return false;
  }
  FileKind const wanted = key == "model"    ? FileKind::model
                          : key == "system" ? FileKind::system
                                            : FileKind::software;
  if (auto problem = wrong_kind(*content, wanted, key)) {
    diagnostics.add(std::move(*problem));
    return false;
  }
  section = std::move(*content);
  return true;
}

void open_references(YamlNode& root,
                     std::filesystem::path const& folder,
                     Diagnostics& diagnostics) {
  for (std::string const key : reference_keys) {
    if (YamlNode* const section = root.find(key))
      open_reference(*section, key, folder, diagnostics);
  }
}

RunConfig read_run_tree(YamlNode const& root, Diagnostics diagnostics) {
  RunConfig config;
  ConfigNode const node{root, "", diagnostics};
  SectionReader reader{node};
  for (std::string_view const key : training_sections) reader.take(key);
  ConfigNode const system = reader.take("system");
  ConfigNode const software = reader.take("software");
  if (node.is_map()) {
    for (std::string_view const key : reference_keys) {
      ConfigNode const section = node.child(key);
      if (key == "software" && !section.exists()) continue;
      if (!section.is_map() && section.is_sound()) {
        section.report("a map, or the name of a YAML file");
      }
    }
  }
  reader.finish();
  config.training = read_training_config(node);
  config.system = read_system(system);
  if (software.exists()) config.system.software = read_software(software);
  config.training.stack = {.overlap = config.system.software.replicas.overlap.value,
                           .bucket_elements = default_bucket(config)};
  check_precision(config, node);
  check_run_time(config, node);
  diagnostics.throw_if_any();
  config.warnings = diagnostics.warnings();
  std::string assumed;
  for (std::string const& key : assumed_constants(config.system)) {
    assumed += (assumed.empty() ? "" : ", ") + key;
  }
  if (!assumed.empty()) {
    config.warnings.push_back("system " + config.system.name + " was measured except " + assumed +
                              ", which are assumed (`stagecraft system` names the sources)");
  }
  return config;
}

}  // namespace stagecraft
