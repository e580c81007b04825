#include "libsim/training/sharding/sharding_reader.hpp"

#include <limits>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/training/training_keys.hpp"

namespace stagecraft {
namespace {

constexpr IntegerRange some_ranks{1, most_ranks};

std::string found(Sharding const& sharding) { return std::string{name_of(sharding.kind)}; }

}  // namespace

Sharding read_sharding(ConfigNode const& section) {
  Sharding sharding;
  if (!section.is_map()) {
    return default_sharding(section.word<ShardingKind>().value_or(sharding.kind));
  }
  for (auto const& [kind, name] : EnumNames<ShardingKind>::all) {
    if (section.child("kind").reads(name)) sharding = default_sharding(kind);
  }
  SectionReader reader{section};
  visit_keys(reader, sharding);
  for (std::string_view const key :
       {"threshold", "max_live", "prefetch_bucket", "double_buffers"}) {
    reader.not_modelled(key, "each layer gathers all its parameters, and the next one's ahead");
  }
  reader.finish();
  if (sharding.traits().reduces_every && sharding.sync == UnitSync::last) {
    section.child("sync").report("every, as sharding is " + found(sharding));
  }
  Sharding of_kind = default_sharding(sharding.kind);
  bool const has_strategy = sharding.kind == ShardingKind::megatron_fsdp;
  if (has_strategy) of_kind.strategy = sharding.strategy;
  if (section.is_sound() && !sharding.has_units() && sharding != of_kind) {
    section.report((has_strategy ? "the keys kind and strategy" : "the key kind") +
                   std::string{" alone, as sharding is "} + found(sharding) +
                   (has_strategy ? " with strategy optim" : ""));
  }
  return sharding;
}

Sharding read_sharding(ConfigNode const& root, std::optional<bool> short_form) {
  ConfigNode const section = root.child("sharding");
  if (!section.exists()) return sharding_of(short_form.value_or(false));
  Sharding const sharding = read_sharding(section);
  if (!short_form || *short_form == sharding.shares_optimizer()) return sharding;
  ConfigNode const other = root.child("memory").child("distributed_optimizer");
  auto const is_override = [](ConfigNode const& node) { return node.place().line == 0; };
  if (is_override(section) == is_override(other)) {
    other.report((*short_form ? "false, as sharding is " : "true, as sharding is ") +
                 found(sharding));
  }
  return is_override(other) ? sharding_of(*short_form) : sharding;
}

Offload read_offload(ConfigNode const& section) {
  Offload offload;
  if (!section.exists() || section.reads("none")) return offload;
  if (!section.is_map()) {
    section.report("none, or a map such as {optimizer: 0.5} or {activations: {layers: 8}}");
    return offload;
  }
  SectionReader reader{section};
  visit_keys(reader, offload);
  reader.not_modelled("parameters",
                      "only the optimizer's state and activations are offloaded: {optimizer: 0.5}, "
                      "{activations: {modules: [core_attn]}}");
  reader.finish();
  return offload;
}

nlohmann::ordered_json to_json(Offload const& offload) {
  if (offload == Offload{}) return "none";
  SectionWriter writer;
  visit_keys(writer, offload);
  return writer.map();
}

nlohmann::ordered_json to_json(Sharding const& sharding) {
  if (sharding == default_sharding(sharding.kind)) return name_of(sharding.kind);
  SectionWriter writer;
  visit_keys(writer, sharding);
  return writer.map();
}

nlohmann::ordered_json short_json(Sharding const& sharding) {
  Sharding const usual = default_sharding(sharding.kind);
  if (sharding == usual) return name_of(sharding.kind);
  SectionWriter own;
  visit_keys(own, sharding);
  SectionWriter of_kind;
  visit_keys(of_kind, usual);
  nlohmann::ordered_json map{{"kind", name_of(sharding.kind)}};
  for (auto const& [key, value] : own.map().items()) {
    if (value != of_kind.map().at(key)) map[key] = value;
  }
  return map;
}

void read_field(ConfigNode const& node, Reshard& reshard) {
  using Kind = Reshard::Kind;
  if (node.reads("auto")) return;
  if (node.reads("true") || node.reads("false")) {
    reshard.kind = node.reads("true") ? Kind::yes : Kind::no;
    return;
  }
  auto const ranks = node.integer(some_ranks, "auto, true, false, or a number of ranks, ");
  if (ranks) reshard = {Kind::to_ranks, static_cast<int>(*ranks)};
}

nlohmann::ordered_json to_json(Reshard const& reshard) {
  using Kind = Reshard::Kind;
  if (reshard.kind == Kind::automatic) return "auto";
  if (reshard.kind == Kind::to_ranks) return reshard.ranks;
  return reshard.kind == Kind::yes;
}

std::string accepted_text(Reshard const& /*reshard*/) {
  return "auto, true, false, or a number of ranks";
}

void read_field(ConfigNode const& node, ActivationOffload& activations) {
  SectionReader reader{node};
  visit_keys(reader, activations);
  reader.not_modelled("chunks",
                      "layers or modules are offloaded: {layers: 8}, {modules: [core_attn]}");
  reader.finish();
}

void read_field(ConfigNode const& node, OffloadModules& modules) {
  if (!node.is_sequence()) {
    node.report(accepted_text(modules));
    return;
  }
  for (ConfigNode const& item : node.items()) {
    auto const module = item.word<OffloadModule>();
    if (!module) continue;
    if (modules.has(*module)) item.report("each module once");
    modules.insert(*module);
  }
}

nlohmann::ordered_json to_json(OffloadModules const& modules) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (auto const& [module, name] : EnumNames<OffloadModule>::all) {
    if (modules.has(module)) names.push_back(name);
  }
  return names;
}

std::string accepted_text(OffloadModules const& /*modules*/) {
  return "a list of " + accepted_names<OffloadModule>();
}

void read_field(ConfigNode const& node, Prefetch& prefetch) {
  if (node.reads("implicit")) return;
  auto const units = node.integer(some_ranks, "implicit, or a number of units, ");
  prefetch.units = static_cast<int>(units.value_or(0));
}

nlohmann::ordered_json to_json(Prefetch const& prefetch) {
  if (prefetch.units == 0) return "implicit";
  return prefetch.units;
}

std::string accepted_text(Prefetch const& /*prefetch*/) { return "implicit, or a number of units"; }

}  // namespace stagecraft
