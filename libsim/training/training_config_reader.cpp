#include "libsim/training/training_config_reader.hpp"

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "libsim/allocator/allocator_settings.hpp"
#include "libsim/config/file_beside.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/order_file.hpp"
#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/expert_checks.hpp"
#include "libsim/training/expert_overlap.hpp"
#include "libsim/training/low_precision/low_precision_reader.hpp"
#include "libsim/training/recompute_reader.hpp"
#include "libsim/training/repeated_heads.hpp"
#include "libsim/training/routing_check.hpp"
#include "libsim/training/routing_reader.hpp"
#include "libsim/training/sharding/sharding_reader.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_keys.hpp"

namespace stagecraft {
namespace {

/// Keys with which other programs shard parameters, gradients and optimizer state.
constexpr std::array<std::string_view, 8> sharding_keys{"zero", "zero_stage", "zero2", "zero3",
                                                        "fsdp", "fsdp2",      "hsdp",  "sharding"};

PipelineOrder read_texts(ConfigNode const& orders, PlacementShape shape) {
  std::vector<std::string> stages;
  for (ConfigNode const& stage : orders.items()) stages.push_back(stage.text().value_or(""));
  if (stages.empty()) throw ScheduleError{"order", "no stage", "one text per stage"};
  return order_of_texts(stages, shape);
}

/// The keys of kind order: a file, or the texts of all stages with their placement.
SharedOrder read_order(SectionReader& reader, ConfigNode const& section) {
  ConfigNode const file = reader.take("file");
  ConfigNode const orders = reader.take("orders");
  auto shape = PlacementShape::loop;
  reader.value("placement", shape);
  if (file.exists() == orders.exists()) {
    section.report(file.exists() ? "both file and orders" : "neither file nor orders",
                   "file, a JSON file with `orders`, or orders, one text per stage");
    return {};
  }
  ConfigNode const& source = file.exists() ? file : orders;
  try {
    if (orders.exists()) return SharedOrder{read_texts(orders, shape)};
    if (auto const name = file.text())
      return SharedOrder{read_order_file(file_beside(file, *name))};
  } catch (ScheduleError const& error) {
    report(error, source);
  }
  return {};
}

ScheduleConfig read_schedule(ConfigNode const& section) {
  ScheduleConfig schedule;
  if (!section.exists()) return schedule;
  if (section.is_scalar()) {
    if (auto const kind = section.word<ScheduleKind>()) schedule.kind = *kind;
    if (has_order(schedule.kind)) schedule.p2p = P2p::overlapped;
    if (schedule.kind == ScheduleKind::order) {
      section.report("a map {kind: order, file: x.json}, or with orders in place of file");
    }
    return schedule;
  }
  if (!section.is_map()) {
    section.report(accepted_names<ScheduleKind>() + ", or a map with the key kind");
    return schedule;
  }
  SectionReader reader{section};
  visit_keys(reader, schedule);
  if (schedule.kind == ScheduleKind::order && section.child("kind").is_sound()) {
    schedule.order = read_order(reader, section);
  }
  if (!takes_group(schedule.kind)) {
    ConfigNode const group = reader.take("group");
    if (group.exists() && section.child("kind").is_sound()) {
      bool const is_whole = schedule.kind == ScheduleKind::order;  // the section has the order, too
      group.report_key(group.found(), is_whole
                                          ? "this key only with kind interleaved"
                                          : "this key only with kind interleaved (--set schedule=" +
                                                std::string{name_of(schedule.kind)} +
                                                " replaces the whole section)");
    }
  }
  reader.finish();
  return schedule;
}

LayerSplit read_layout(ConfigNode const& section) {
  LayerSplit split;
  if (!section.exists()) return split;
  if (section.is_sequence()) {
    split.kind = LayerSplit::Kind::list;
    for (ConfigNode const& item : section.items()) {
      split.list.push_back(item.integer({0, most_layers}).value_or(0));
    }
  } else if (section.is_map()) {
    split.kind = LayerSplit::Kind::first_last;
    SectionReader reader{section};
    visit_keys(reader, split);
    reader.finish();
    if (section.is_sound() && !split.first && !split.last) section.report("the key first or last");
  } else if (!section.reads("even")) {
    section.report(std::string{layout_text});
  }
  return split;
}

/// Reads the keys of a run that are single words, beside its sections.
class WordReader : public KeyVisitor<WordReader> {
 public:
  explicit WordReader(ConfigNode const& root) : root_{root} {}

  void key_apart(Key const& /*key*/) {}
  template <typename Field>
  void key(Key const& key, Field&& field) {
    using Held = HeldBy<Field>;
    if constexpr (std::same_as<Held, bool>) {
      if (auto const node = root_.child(key.name); node.exists()) {
        field = node.boolean().value_or(field);
      }
    } else if constexpr (NamedEnum<Held>) {
      if (auto const node = root_.child(key.name); node.exists()) {
        field = node.template word<Held>().value_or(field);
      }
    }
  }

 private:
  ConfigNode const& root_;
};

}  // namespace

void name_unmodelled_keys(SectionReader& reader) {
  for (std::string_view const key : sharding_keys) {
    reader.not_modelled(
        key,
        "key sharding says what replicas share: `sharding: distributed_optimizer` as "
        "Megatron-LM does, fsdp1 and fsdp2 as PyTorch does, zero1, zero2 and zero3 as DeepSpeed "
        "does");
  }
  for (std::string_view const key : {"offload", "cpu_offload", "offload_optimizer"}) {
    reader.not_modelled(
        key,
        "key offload of the run says what the host's memory holds: `offload: {optimizer: 0.5}`; "
        "parameters and activations are not offloaded");
  }
}

TrainingConfig read_training_config(ConfigNode const& root) {
  TrainingConfig config;
  ConfigNode const model = root.child("model");
  if (model.exists() || model.is_sound()) config.model = read_model_config(model);
  auto const read = [&](std::string_view key, auto&& fields, auto name_others) {
    SectionReader reader{root.child(key)};
    visit_keys(reader, fields);
    name_others(reader);
    name_unmodelled_keys(reader);
    reader.finish();
  };
  read("parallel", config.parallel, [](SectionReader& reader) {
    for (auto const& [other, key] : short_names_of_parallel) reader.synonym(other, key);
  });
  read("batch", config.batch, [](SectionReader& reader) {
    reader.not_modelled("tokens", "global counts sequences: tokens / model.sequence");
  });
  config.schedule = read_schedule(root.child("schedule"));
  config.recompute = read_recompute(root.child("recompute"));
  config.routing = read_routing(root.child("routing"));
  config.low_precision = read_low_precision(root.child("low_precision"));
  WordReader words{root};
  visit_keys(words, config);
  std::optional<bool> distributed_optimizer;
  read("memory", MemorySection{config.memory, distributed_optimizer}, [](SectionReader&) {});
  config.sharding = read_sharding(root, distributed_optimizer);
  config.offload = read_offload(root.child("offload"));
  if (!config.memory.allocator_settings.empty()) {
    ConfigNode const settings = root.child("memory").child("allocator_settings");
    read_allocator_settings(config.memory.allocator_settings, settings.place(), settings.key(),
                            settings.diagnostics());
  }
  config.layout = read_layout(root.child("layout"));
  read("training", config.training, [](SectionReader& reader) {
    reader.not_modelled("optimizer", "the optimizer is Adam: two moments and a master copy");
  });
  bool const has_group = config.schedule.group != 0;
  if (config.schedule.kind == ScheduleKind::interleaved && !has_group) {
    config.schedule.group = config.parallel.pipeline;
  }
  // The schedule says it, so a run need not; one that says otherwise is refused below.
  if (!root.child("parallel").child("interleave").exists()) {
    config.parallel.interleave = std::max(1, chunks_of(config.schedule));
  }
  settle_expert_overlap(config);
  auto const is_sound = [&](std::string_view key) { return root.child(key).is_sound(); };
  if (is_sound("model") && is_sound("parallel") && is_sound("batch") && is_sound("routing") &&
      settle_routing(config)) {
    root.child("routing").warn(
        "balanced, and the choices of a rank's tokens do not divide by the experts: counts are as "
        "even as they can be (routing.factor 1)");
  }
  check_training_config(config, root);
  if (config.parallel.sequence && config.parallel.tensor == 1 &&
      root.child("parallel").is_sound()) {
    root.child("parallel").child("sequence").warn("has no effect with parallel.tensor 1");
    config.parallel.sequence = false;
  }
  ConfigNode const tensor = root.child("parallel").child("tensor");
  if (auto const text = repeated_heads_text(config); text && tensor.is_sound()) tensor.warn(*text);
  return config;
}

void read_field(ConfigNode const& node, AllocatorText<std::string> settings) {
  if (!node.reads("")) settings.text = node.text().value_or("");  // empty is the default
}

nlohmann::ordered_json to_json(AllocatorText<std::string const> settings) { return settings.text; }

nlohmann::ordered_json to_json(LayerSplit const& split) {
  if (split.kind == LayerSplit::Kind::even) return "even";
  if (split.kind == LayerSplit::Kind::list) return split.list;
  SectionWriter writer;
  visit_keys(writer, split);
  return writer.map();
}

std::string accepted_text(ScheduleConfig const& /*schedule*/) {
  return accepted_names<ScheduleKind>();
}

nlohmann::ordered_json to_json(ScheduleConfig const& schedule) {
  SectionWriter writer;
  visit_keys(writer, schedule);
  if (schedule.kind == ScheduleKind::order && schedule.order) {
    writer.put("placement", name_of(shape_of(schedule.order->placement)));
    auto stages = nlohmann::ordered_json::array();
    for (auto const& tasks : schedule.order->stages) stages.push_back(order_text(tasks));
    writer.put("orders", std::move(stages));
  }
  return writer.map();
}

nlohmann::ordered_json to_json(TrainingConfig const& config) {
  TrainingConfig settled = config;
  if (settled.schedule.group == 0) settled.schedule.group = config.parallel.pipeline;
  SectionWriter writer;
  visit_keys(writer, std::as_const(settled));
  return writer.map();
}

}  // namespace stagecraft
