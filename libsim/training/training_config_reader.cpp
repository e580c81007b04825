#include "libsim/training/training_config_reader.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "libsim/allocator/allocator_settings.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/order_file.hpp"
#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/context_checks.hpp"
#include "libsim/training/expert_checks.hpp"
#include "libsim/training/expert_overlap.hpp"
#include "libsim/training/named_file.hpp"
#include "libsim/training/recompute_reader.hpp"
#include "libsim/training/repeated_heads.hpp"
#include "libsim/training/routing_reader.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

/// Keys with which other programs shard parameters, gradients and optimizer state.
constexpr std::array<std::string_view, 8> sharding_keys{"zero", "zero_stage", "zero2", "zero3",
                                                        "fsdp", "fsdp2",      "hsdp",  "sharding"};

constexpr std::int64_t most_ranks = 1'000'000;  ///< of one kind of parallelism
constexpr std::int64_t most_layers = 100'000;

// The keys of each section, for reading and for writing.

template <typename Visitor, typename Layout>
void visit_parallel(Visitor& visitor, Layout& layout) {
  visitor.integer("tensor", layout.tensor, {1, most_ranks});
  visitor.integer("pipeline", layout.pipeline, {1, most_ranks});
  visitor.integer("interleave", layout.interleave, {1, most_layers});
  visitor.integer("data", layout.data, {1, most_ranks});
  visitor.boolean("sequence", layout.sequence);
  visitor.integer("expert", layout.expert, {1, most_ranks});
  visitor.integer("expert_tensor", layout.expert_tensor, {1, most_ranks});
  visitor.boolean("expert_overlap", layout.expert_overlap);
  visitor.boolean("shared_expert_overlap", layout.shared_expert_overlap);
  visitor.integer("context", layout.context, {1, most_ranks});
  if constexpr (std::is_const_v<Layout>) {
    visitor.put("context_method", context_method_json(layout));
  } else {
    read_context_method(visitor.take("context_method"), layout);
    for (auto const& [other, key] : short_names_of_parallel) visitor.synonym(other, key);
  }
  visitor.boolean("overlap_gradients", layout.overlap_gradients);
  visitor.integer("gradient_bucket", layout.gradient_bucket, {0, std::int64_t{1} << 40});
}

template <typename Visitor, typename Batch>
void visit_batch(Visitor& visitor, Batch& batch) {
  visitor.integer("global", batch.global, {1, std::int64_t{1} << 40});
  visitor.integer("micro", batch.micro, {1, 1 << 20});
}

template <typename Visitor, typename Schedule>
void visit_schedule(Visitor& visitor, Schedule& schedule) {
  constexpr std::int64_t many = std::numeric_limits<std::int64_t>::max();
  visitor.word("kind", schedule.kind);
  if constexpr (!std::is_const_v<Schedule>) {
    if (has_order(schedule.kind)) schedule.p2p = P2p::overlapped;
  }
  if (takes_group(schedule.kind)) {
    visitor.integer("group", schedule.group, {1, std::numeric_limits<int>::max()});
  }
  if (schedule.kind == ScheduleKind::zbv) visitor.word("variant", schedule.variant);
  if (may_split_backward(schedule.kind)) {
    visitor.boolean("fuse_adjacent", schedule.fuse_adjacent);
  }
  if (depends_on_costs(schedule.kind, schedule.variant)) {
    visitor.number("memory_limit", schedule.memory_limit, {0, 1e9});
  }
  if (schedule.kind == ScheduleKind::searched) {
    visitor.integer("seed", schedule.seed, {0, many});
    visitor.integer("iterations", schedule.iterations, {0, many});
    visitor.number("seconds", schedule.seconds, {0, 1e6});
  }
  visitor.word("p2p", schedule.p2p);
  visitor.word("step", schedule.step);
  visitor.boolean("scatter_gather", schedule.scatter_gather);
}

/// `distributed_optimizer`: the short form of `sharding`, if the section has it.
template <typename Visitor, typename Memory, typename ShortForm>
void visit_memory(Visitor& visitor, Memory& memory, ShortForm&& distributed_optimizer) {
  visitor.boolean("output_deallocation", memory.output_deallocation);
  visitor.boolean("distributed_optimizer", distributed_optimizer);
  visitor.word("gradient_dtype", memory.gradient_dtype);
  visitor.word("moments_dtype", memory.moments_dtype);
  visitor.quantity("reserve", memory.reserve);
  visitor.word("allocator", memory.allocator);
  visitor.word("empty_cache", memory.empty_cache);
}

template <typename Visitor, typename Training>
void visit_training(Visitor& visitor, Training& training) {
  constexpr double most = 1e9;
  visitor.integer("seed", training.seed, {0, std::numeric_limits<std::int64_t>::max()});
  visitor.number("init_std", training.init_std, {0, most});
  visitor.number("learning_rate", training.learning_rate, {0, most});
  visitor.number("beta1", training.beta1, {0, 1});
  visitor.number("beta2", training.beta2, {0, 1});
  visitor.number("epsilon", training.epsilon, {0, most});
  visitor.number("weight_decay", training.weight_decay, {0, most});
  visitor.number("clip", training.clip, {0, most});
  visitor.number("loss_scale", training.loss_scale, {1, 0x1p40});
}

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
  reader.word("placement", shape);
  if (file.exists() == orders.exists()) {
    section.report(file.exists() ? "both file and orders" : "neither file nor orders",
                   "file, a JSON file with `orders`, or orders, one text per stage");
    return {};
  }
  ConfigNode const& source = file.exists() ? file : orders;
  try {
    if (orders.exists()) return SharedOrder{read_texts(orders, shape)};
    if (auto const name = file.text()) return SharedOrder{read_order_file(named_file(file, *name))};
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
  visit_schedule(reader, schedule);
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

/// Key `sharding`, or the short form of it that section `memory` has. If both are given, an
/// override goes before what a file says: run files that were printed have both.
Sharding read_sharding(ConfigNode const& root, std::optional<bool> short_form) {
  ConfigNode const section = root.child("sharding");
  if (!section.exists()) return sharding_of(short_form.value_or(false));
  Sharding sharding;
  if (section.is_map()) {
    SectionReader reader{section};
    reader.word("kind", sharding.kind);
    reader.finish();
  } else {
    sharding.kind = section.word<ShardingKind>().value_or(sharding.kind);
  }
  if (!short_form || *short_form == sharding.shares_optimizer()) return sharding;
  ConfigNode const other = root.child("memory").child("distributed_optimizer");
  auto const is_override = [](ConfigNode const& node) { return node.place().line == 0; };
  if (is_override(section) == is_override(other)) {
    other.report(*short_form ? "false, as sharding is " + std::string{name_of(sharding.kind)}
                             : "true, as sharding is " + std::string{name_of(sharding.kind)});
  }
  return is_override(other) ? sharding_of(*short_form) : sharding;
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
    for (auto const& [key, layers] : {std::pair{"first", &split.first}, {"last", &split.last}}) {
      ConfigNode const node = reader.take(key);
      if (node.exists()) *layers = node.integer({0, most_layers});
    }
    reader.finish();
    if (section.is_sound() && !split.first && !split.last) section.report("the key first or last");
  } else if (!section.reads("even")) {
    section.report("even, a map {first: 11, last: 11}, or a list of layers per stage");
  }
  return split;
}

nlohmann::ordered_json to_json(LayerSplit const& split) {
  if (split.kind == LayerSplit::Kind::even) return "even";
  if (split.kind == LayerSplit::Kind::list) return split.list;
  auto map = nlohmann::ordered_json::object();
  if (split.first) map["first"] = *split.first;
  if (split.last) map["last"] = *split.last;
  return map;
}

}  // namespace

void name_unmodelled_keys(SectionReader& reader) {
  for (std::string_view const key : sharding_keys) {
    reader.not_modelled(key,
                        "ZeRO-2, ZeRO-3 and FSDP are not modelled; memory.distributed_optimizer: "
                        "true shards optimizer state over the replicas, as ZeRO-1 does");
  }
  for (std::string_view const key : {"offload", "cpu_offload", "offload_optimizer"}) {
    reader.not_modelled(key, "offloading to the host's memory is not modelled");
  }
}

TrainingConfig read_training_config(ConfigNode const& root) {
  TrainingConfig config;
  ConfigNode const model = root.child("model");
  if (model.exists() || model.is_sound()) config.model = read_model_config(model);
  auto const read = [&](std::string_view key, auto& fields, auto visit) {
    SectionReader reader{root.child(key)};
    visit(reader, fields);
    name_unmodelled_keys(reader);
    reader.finish();
  };
  read("parallel", config.parallel, [](auto& v, auto& fields) { visit_parallel(v, fields); });
  read("batch", config.batch, [](auto& v, auto& fields) {
    visit_batch(v, fields);
    v.not_modelled("tokens", "global counts sequences: tokens / model.sequence");
  });
  config.schedule = read_schedule(root.child("schedule"));
  config.recompute = read_recompute(root.child("recompute"));
  config.routing = read_routing(root.child("routing"));
  if (auto const dispatch = root.child("dispatch"); dispatch.exists()) {
    config.dispatch = dispatch.word<Dispatch>().value_or(config.dispatch);
  }
  std::optional<bool> distributed_optimizer;
  read("memory", config.memory, [&](auto& v, auto& fields) {
    visit_memory(v, fields, distributed_optimizer);
    ConfigNode const settings = v.take("allocator_settings");
    bool const is_given = settings.exists() && !settings.reads("");  // an empty text is the default
    if (is_given) fields.allocator_settings = settings.text().value_or("");
  });
  config.sharding = read_sharding(root, distributed_optimizer);
  if (!config.memory.allocator_settings.empty()) {
    ConfigNode const settings = root.child("memory").child("allocator_settings");
    read_allocator_settings(config.memory.allocator_settings, settings.place(), settings.key(),
                            settings.diagnostics());
  }
  config.layout = read_layout(root.child("layout"));
  read("training", config.training, [](auto& v, auto& fields) {
    visit_training(v, fields);
    v.not_modelled("optimizer", "the optimizer is Adam: two moments and a master copy");
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

nlohmann::ordered_json to_json(TrainingConfig const& config) {
  auto const written = [](auto const& fields, auto visit) {
    SectionWriter writer;
    visit(writer, fields);
    return writer.map();
  };
  nlohmann::ordered_json root;
  root["model"] = to_json(config.model);
  root["parallel"] =
      written(config.parallel, [](auto& v, auto const& fields) { visit_parallel(v, fields); });
  root["batch"] =
      written(config.batch, [](auto& v, auto const& fields) { visit_batch(v, fields); });
  ScheduleConfig schedule = config.schedule;
  if (schedule.group == 0) schedule.group = config.parallel.pipeline;
  root["schedule"] = written(schedule, [](auto& v, auto const& fields) {
    visit_schedule(v, fields);
    if (fields.kind != ScheduleKind::order || !fields.order) return;
    v.put("placement", name_of(shape_of(fields.order->placement)));
    auto stages = nlohmann::ordered_json::array();
    for (auto const& tasks : fields.order->stages) stages.push_back(order_text(tasks));
    v.put("orders", std::move(stages));
  });
  root["recompute"] = to_json(config.recompute);
  root["routing"] = to_json(config.routing);
  root["dispatch"] = name_of(config.dispatch);
  root["sharding"] = name_of(config.sharding.kind);
  root["memory"] = written(config.memory, [&](auto& v, auto const& fields) {
    visit_memory(v, fields, config.sharding.shares_optimizer());
    v.text("allocator_settings", fields.allocator_settings);
  });
  root["layout"] = to_json(config.layout);
  root["training"] =
      written(config.training, [](auto& v, auto const& fields) { visit_training(v, fields); });
  return root;
}

}  // namespace stagecraft
