#include "libsim/run/run_tree.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "libsim/config/section_reader.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/run/base_file.hpp"
#include "libsim/run/collectives_file.hpp"
#include "libsim/run/file_kind.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/run/run_time_limit.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

/// The sections that may be the name of a file.
constexpr std::array<char const*, 3> reference_keys{"model", "system", "software"};

/// The folder of configs that has the files of a section.
std::string folder_of_section(std::string_view key) {
  return key == "software" ? "software" : std::string{key} + "s";
}

/// Where the file that a reference names is looked for: beside the run file, or from an override
/// also in the current folder.
std::filesystem::path folder_to_search(YamlNode const& reference,
                                       std::filesystem::path const& folder) {
  std::error_code ignored;
  bool const is_override = reference.place.line == 0;
  return is_override && !std::filesystem::exists(folder / reference.text, ignored)
             ? std::filesystem::path{}
             : folder;
}

/// The name of a section in place that has a base and no name of its own.
std::string name_of_changed(YamlNode const& section) {
  YamlNode const* const base = section.find("base");
  if (base == nullptr) return {};
  return std::filesystem::path{base->text}.stem().string() + ", changed";
}

/// Keys of sections that are written without them, by short names or Megatron-LM's.
void add_hints(SectionReader& reader) {
  for (auto const& [other, key] : short_names_of_parallel) {
    reader.synonym(other, "parallel." + std::string{key});
  }
  for (auto const& [other, key] : {std::pair{"tensor_model_parallel_size", "parallel.tensor"},
                                   {"pipeline_model_parallel_size", "parallel.pipeline"},
                                   {"context_parallel_size", "parallel.context"},
                                   {"expert_model_parallel_size", "parallel.expert"},
                                   {"micro_batch_size", "batch.micro"},
                                   {"global_batch_size", "batch.global"},
                                   {"seq_length", "model.sequence"},
                                   {"sequence", "model.sequence"},
                                   {"precision", "model.precision"},
                                   {"micro_batch", "batch.micro"},
                                   {"global_batch", "batch.global"},
                                   {"interleave", "parallel.interleave"},
                                   {"distributed_optimizer", "memory.distributed_optimizer"},
                                   {"num_layers", "model.layers"}}) {
    reader.synonym(other, key);
  }
  name_unmodelled_keys(reader);
}

/// A default of the global batch would give numbers that mean nothing.
void require_batch(ConfigNode const& run) {
  ConfigNode const batch = run.child("batch");
  ConfigNode const global = batch.child("global");
  bool const is_other_problem = batch.exists() && !batch.is_map();
  if (global.exists() || is_other_problem || !batch.is_sound() || !run.is_map()) return;
  global.report("the sequences of an iteration over all replicas, such as batch: {global: 64}");
}

/// Elements of the stack's buckets.
std::int64_t default_bucket(RunConfig const& config) {
  ReplicaTraffic const& replicas = config.system.software.replicas;
  std::int64_t const own = element_size(accumulation_type(config.training.model.precision));
  std::int64_t const size = replicas.gradient_bytes.value > 0 ? replicas.gradient_bytes.value : own;
  return replicas.bucket.value.count() / size;
}

}  // namespace

std::map<std::string, std::string, std::less<>> const& run_word_keys() {
  static std::map<std::string, std::string, std::less<>> const keys{{"schedule", "kind"},
                                                                    {"recompute", "granularity"},
                                                                    {"sharding", "kind"},
                                                                    {"low_precision", "recipe"}};
  return keys;
}

bool open_reference(YamlNode& section,
                    std::string const& key,
                    std::filesystem::path const& folder,
                    Diagnostics& diagnostics) {
  bool const may_name_file =
      std::find(reference_keys.begin(), reference_keys.end(), key) != reference_keys.end();
  if (!may_name_file) return true;
  if (section.kind == YamlNode::Kind::map) {
    std::string const name = key == "model" ? "" : name_of_changed(section);
    return apply_base(section, key, folder_of_section(key), folder, name, diagnostics);
  }
  if (section.kind != YamlNode::Kind::scalar) return true;
  // Looking up a text that cannot be a path would throw.
  if (section.text.empty() || section.text.find('\0') != std::string::npos) {
    diagnostics.add({section.place, key, "'" + printable(section.text) + "'",
                     "a map, or the name of a YAML file"});
    return false;
  }
  std::filesystem::path const beside = folder_to_search(section, folder);
  auto content = parse_named_file(section.text, folder_of_section(key), beside, section.place, key,
                                  diagnostics);
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
  std::filesystem::path const file = named_file(section.text, folder_of_section(key), beside);
  section = std::move(*content);
  std::string const name = key == "model" ? "" : file.stem().string();
  return apply_base(section, key, folder_of_section(key), file.parent_path(), name, diagnostics);
}

void open_references(YamlNode& root,
                     std::filesystem::path const& folder,
                     Diagnostics& diagnostics) {
  for (std::string const key : reference_keys) {
    if (YamlNode* const section = root.find(key))
      open_reference(*section, key, folder, diagnostics);
  }
  complete_software(root, diagnostics);
}

System read_machine(ConfigNode const& run) {
  ConfigNode const section = run.child("system");
  ConfigNode const software = run.child("software");
  System system = read_system(section);
  open_collectives(system, section, run.diagnostics());
  if (software.exists()) {
    system.software = read_software(software);
    bool const is_changed = std::ranges::any_of(software.entries(), [](ConfigNode const& entry) {
      return entry.is_map() && entry.is_overridden();
    });
    if (is_changed) system.validated = false;
  }
  return system;
}

RunConfig read_run_tree(YamlNode const& root, Diagnostics diagnostics, System const* machine) {
  RunConfig config;
  ConfigNode const node{root, "", diagnostics};
  SectionReader reader{node};
  for (std::string_view const key : training_sections) reader.take(key);
  reader.take("system");
  reader.take("software");
  if (node.is_map()) {
    for (std::string_view const key : reference_keys) {
      ConfigNode const section = node.child(key);
      if (key == "software" && !section.exists()) continue;
      if (!section.is_map() && section.is_sound()) {
        // A file that holds no map may be any file: its content is not shown.
        section.report(section.exists() ? "no map" : "", "a map, or the name of a YAML file");
      }
    }
  }
  add_hints(reader);
  reader.finish();
  require_batch(node);
  config.training = read_training_config(node);
  config.system = machine != nullptr ? *machine : read_machine(node);
  config.training.stack = {.overlap = config.system.software.replicas.overlap.value,
                           .bucket_elements = default_bucket(config),
                           .early_stop = config.system.software.kernels.early_stop.value,
                           .sums_along_rows = sums_along_rows(config.system.accelerator)};
  check_precision(config, node);
  check_attention(config, node);
  check_recipe(config, node);
  check_tf32(config, node);
  check_dispatch(config, node);
  check_host(config, node);
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
