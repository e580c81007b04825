#pragma once

#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "libsim/schedule/generators/order_request.hpp"
#include "libsim/schedule/orders/order_text.hpp"

namespace stagecraft {

/// The entries of tests/oracle/zero_bubble.json: orders that the public schedulers themselves made,
/// each with its generator and commit; see the file's "meta".
inline std::vector<nlohmann::json> const& order_oracle() {
  static std::vector<nlohmann::json> const entries = [] {
    std::ifstream file{STAGECRAFT_SOURCE_DIR "/tests/oracle/zero_bubble.json"};
    nlohmann::json const document = nlohmann::json::parse(file);
    std::vector<nlohmann::json> all;
    for (auto const& [section, found] : document.items()) {
      if (section != "meta") all.insert(all.end(), found.begin(), found.end());
    }
    return all;
  }();
  return entries;
}

/// "zbv_auto p=4 n=8 m=2 F=2 I=3 W=1 comm=0", to name an entry in a failed test. In the oracle m is
/// microbatches and v chunks per stage.
inline std::string name_of_order(nlohmann::json const& entry) {
  std::string name = entry.at("k").get<std::string>() + " p=" + entry.at("p").dump() +
                     " n=" + entry.at("m").dump() + " m=" + entry.at("v").dump();
  for (auto const& [cost, value] : entry.at("costs").items()) {
    name += " " + cost + "=" + value.dump();
  }
  return name;
}

inline ChunkCosts costs_of(nlohmann::json const& entry) {
  auto const& costs = entry.at("costs");
  double const input_gradient = costs.at("I");
  double const weight_gradient = costs.at("W");
  return {.forward = costs.at("F"),
          .backward = input_gradient + weight_gradient,
          .transfer = costs.at("comm"),
          .input_gradient = input_gradient,
          .weight_gradient = weight_gradient};
}

inline Placement placement_of_order(nlohmann::json const& entry) {
  std::string const shape = entry.at("placement");
  int const stages = entry.at("p");
  return shape == "v"               ? v_placement(stages)
         : shape == "bidirectional" ? bidirectional_placement(stages)
                                    : round_placement(stages, entry.at("v"));
}

/// The order as it was recorded.
inline PipelineOrder recorded_order(nlohmann::json const& entry) {
  PipelineOrder order{placement_of_order(entry), entry.at("m"), {}};
  for (auto const& stage : entry.at("orders")) {
    order.stages.push_back(read_order_text(stage.get<std::string>()));
  }
  return order;
}

inline std::vector<std::string> texts_of(PipelineOrder const& order) {
  std::vector<std::string> texts;
  for (auto const& tasks : order.stages) texts.push_back(order_text(tasks));
  return texts;
}

/// The schedule that makes the entry's order.
inline OrderKind kind_of(nlohmann::json const& entry) {
  static std::map<std::string, OrderKind> const kinds{
      {"zbh1_quick_executed", OrderKind::zb_h1},
      {"zb1p_auto", OrderKind::zb_auto},
      {"zb2p_auto", OrderKind::zb_auto},
      {"zb_auto_costs", OrderKind::zb_auto},
      {"zb_auto_transformer_memory", OrderKind::zb_auto},
      {"zb_auto_profiled", OrderKind::zb_auto},
      {"torch_interleaved_zb", OrderKind::interleaved_zb},
      {"torch_zbv", OrderKind::zbv},
      {"zbv_auto", OrderKind::zbv},
      {"v_half", OrderKind::v_half},
      {"v_min", OrderKind::v_min},
      {"v_adaptive", OrderKind::v_auto},
      {"1f1b_v", OrderKind::one_f_one_b_v},
      {"torch_dualpipev", OrderKind::dualpipev},
      {"dualpipev_executed", OrderKind::dualpipev},
      {"dualpipe", OrderKind::dualpipe},
      {"group_interleaved", OrderKind::group_interleaved},
      {"group_interleaved_recompute", OrderKind::group_interleaved},
      {"interleaved_ep_overlap", OrderKind::interleaved},
      {"torch_interleaved_1f1b", OrderKind::interleaved}};
  return kinds.at(entry.at("k").get<std::string>());
}

/// What is asked for to get the entry's order.
inline OrderRequest request_of(nlohmann::json const& entry) {
  OrderRequest request{.kind = kind_of(entry),
                       .stages = entry.at("p"),
                       .microbatches = entry.at("m"),
                       .chunks = entry.at("v")};
  request.expert_overlap = entry.at("k") == "interleaved_ep_overlap";
  request.group = entry.value("g", 0);
  request.costs = costs_of(entry);
  if (entry.at("k") == "zbv_auto") request.variant = OrderVariant::automatic;
  auto const& parameters = entry.at("parameters");
  request.group = parameters.value("interleave_group_size", request.group);
  request.recompute_chunks = parameters.value("recompute_num_layers_meaning_chunks", 0);
  if (parameters.contains("mem_f")) {
    request.memory = {parameters.at("mem_f"), parameters.at("mem_b"), parameters.at("mem_w")};
  }
  // "7 x mem_f on every stage", "8 half-size chunks per stage"; zbv_auto has its default.
  if (parameters.contains("max_mem") && entry.at("k") != "zbv_auto") {
    request.memory_limit = std::stod(parameters.at("max_mem").get<std::string>());
  }
  if (entry.at("k") == "torch_interleaved_1f1b") {
    // PyTorch's groups are as equal as n allows: n / max(1, floor(n/p)).
    request.group = request.microbatches / std::max(1, request.microbatches / request.stages);
  }
  return request;
}

}  // namespace stagecraft
