#include "libsim/run/base_file.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "libsim/hardware/config_texts.hpp"
#include "libsim/run/file_kind.hpp"
#include "libsim/run/named_file.hpp"

namespace stagecraft {
namespace {

constexpr int longest_chain = 8;  ///< of bases; a longer one refers to itself

/// The entry `key` of a map as a node of its own, removed from the map.
std::optional<YamlNode> take(YamlNode& map, std::string_view key) {
  auto const found =
      std::ranges::find_if(map.keys, [&](YamlNode const& name) { return name.text == key; });
  if (found == map.keys.end()) return std::nullopt;
  auto const item = map.items.begin() + (found - map.keys.begin());
  YamlNode value = std::move(*item);
  map.items.erase(item);
  map.keys.erase(found);
  return value;
}

YamlNode text_at(std::string text, Place const& place) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = std::move(text);
  node.quoted = true;
  node.place = place;
  return node;
}

void add_name(YamlNode& section, std::string const& name) {
  if (section.find("name") == nullptr) {
    section.add_entry(text_at("name", section.place), text_at(name, section.place));
  }
}

/// Whether the section `name` of a file gives one of the constants `keys`.
bool gives(YamlNode const& file, std::string_view name, std::span<std::string_view const> keys) {
  YamlNode const* const section = file.find(name);
  return section != nullptr && section->kind == YamlNode::Kind::map &&
         std::ranges::any_of(keys, [&](std::string_view key) { return section->find(key); });
}

/// Removes from `base` measured rates of a network or node that `file` replaces: they take
/// precedence and would leave what the file gives without effect.
void drop_contradicted_rates(YamlNode const& file, YamlNode& base) {
  constexpr std::array<std::string_view, 4> of_network{"bandwidth", "adapters", "efficiency",
                                                       "topology"};
  constexpr std::array<std::string_view, 3> of_node{"all_reduce", "all_gather", "reduce_scatter"};
  if (YamlNode* const network = base.find("network");
      network && gives(file, "network", of_network)) {
    take(*network, "bus_bandwidth");
    take(*network, "gather_bandwidth");
    take(*network, "collectives");
  }
  if (YamlNode* const node = base.find("node"); node && gives(file, "node", of_node)) {
    take(*node, "bus_bandwidth");
    take(*node, "collectives");
  }
  constexpr std::array<std::string_view, 1> tables{"collectives"};
  if (YamlNode* const node = base.find("node"); node && gives(file, "node", tables)) {
    take(*node, "bus_bandwidth");
  }
}

/// Removes from `base` what is on the device beside an allocator's memory if `file` names another
/// accelerator: contexts and the buffers of a communication library are of a driver and a chip.
void drop_foreign_device(YamlNode const& file, YamlNode& base) {
  constexpr std::array<std::string_view, 1> name{"name"};
  if (gives(file, "accelerator", name)) take(base, "device");
}

bool inherit(YamlNode& section,
             std::string const& key,
             std::string const& folder,
             std::filesystem::path const& beside,
             int depth,
             Diagnostics& diagnostics) {
  std::optional<YamlNode> const base = take(section, "base");
  if (!base) return true;
  std::string const base_key = key.empty() ? "base" : key + ".base";
  if (base->kind != YamlNode::Kind::scalar || base->text.empty() ||
      base->text.find('\0') != std::string::npos) {
    diagnostics.add(
        {base->place, base_key, "no name", "a YAML file, or a name of configs/" + folder, true});
    return false;
  }
  if (depth == longest_chain) {
    diagnostics.add({base->place, base_key,
                     "a chain of more than " + std::to_string(longest_chain) + " bases",
                     "a base that does not lead back to itself", true});
    return false;
  }
  auto content = parse_named_file(base->text, folder, beside, base->place, base_key, diagnostics);
  if (!content) return false;
  FileKind const wanted = folder == "systems"  ? FileKind::system
                          : folder == "models" ? FileKind::model
                                               : FileKind::software;
  if (auto problem = wrong_kind(*content, wanted, base_key)) {
    diagnostics.add(std::move(*problem));
    return false;
  }
  std::filesystem::path const below = named_file(base->text, folder, beside).parent_path();
  if (!inherit(*content, key, folder, below, depth + 1, diagnostics)) return false;
  take(*content, "validated");
  take(*content, "name");
  drop_contradicted_rates(section, *content);
  drop_foreign_device(section, *content);
  add_inherited(section, *content);
  return true;
}

}  // namespace

void add_inherited(YamlNode& section, YamlNode const& base) {
  if (section.kind != YamlNode::Kind::map || base.kind != YamlNode::Kind::map) return;
  for (std::size_t i = 0; i < base.items.size(); ++i) {
    YamlNode* const own = section.find(base.keys[i].text);
    if (own == nullptr) {
      section.add_entry(base.keys[i], base.items[i]);
      continue;
    }
    if (own->kind != YamlNode::Kind::map || base.items[i].kind != YamlNode::Kind::map) continue;
    YamlNode const& constants = base.items[i];
    for (std::size_t k = 0; k < constants.items.size(); ++k) {
      if (own->find(constants.keys[k].text) == nullptr) {
        own->add_entry(constants.keys[k], constants.items[k]);
      }
    }
  }
}

bool apply_base(YamlNode& section,
                std::string const& key,
                std::string const& folder,
                std::filesystem::path const& beside,
                std::string const& default_name,
                Diagnostics& diagnostics) {
  if (section.kind != YamlNode::Kind::map || section.find("base") == nullptr) return true;
  if (!inherit(section, key, folder, beside, 0, diagnostics)) {
    diagnostics.mark_unsound(key);
    return false;
  }
  if (!default_name.empty()) add_name(section, default_name);
  return true;
}

void complete_software(YamlNode& root, Diagnostics& diagnostics) {
  YamlNode* const software = root.find("software");
  bool const is_changed_default = software != nullptr && software->kind == YamlNode::Kind::map &&
                                  software->find("name") == nullptr &&
                                  software->find("base") == nullptr;
  if (!is_changed_default) return;
  auto const base = parse_yaml(default_software_text, "megatron-2022.yaml", diagnostics);
  if (base) add_inherited(*software, *base);
}

}  // namespace stagecraft
