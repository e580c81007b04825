#include "libsim/hardware/measured_device_reader.hpp"

#include <string>

#include "libsim/config/section_reader.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

template <>
struct EnumNames<GemmForm> {
  static constexpr std::array<std::pair<GemmForm, std::string_view>, 6> all{
      {{GemmForm::nt, "nt"},
       {GemmForm::nn, "nn"},
       {GemmForm::tn, "tn"},
       {GemmForm::batched_nt, "batched_nt"},
       {GemmForm::batched_nn, "batched_nn"},
       {GemmForm::batched_tn, "batched_tn"}}};
};

namespace {

using Json = nlohmann::ordered_json;
constexpr std::int64_t most_extent = std::int64_t{1} << 40;
constexpr double longest_latency = 1e5;  ///< in seconds

/// Reads the value of each precision.
template <typename Below, typename Read>
void read_precisions(ConfigNode const& node, std::map<Precision, Below>& map, Read read) {
  SectionReader reader{node};
  for (auto const& [precision, word] : EnumNames<Precision>::all) {
    ConfigNode const below = reader.take(word);
    if (below.exists()) read(below, map[precision]);
  }
  reader.finish();
}

void read_axis(ConfigNode const& node, std::vector<std::int64_t>& axis) {
  for (ConfigNode const& item : node.items()) {
    std::int64_t const extent = item.integer({1, most_extent}).value_or(1);
    if (!axis.empty() && extent <= axis.back()) item.report("more than the extent before");
    axis.push_back(extent);
  }
  if (axis.empty() && node.is_sound()) node.report("a list of extents");
}

void read_grid(ConfigNode const& node, GemmGrid& grid) {
  SectionReader reader{node};
  read_axis(reader.take("m"), grid.m);
  read_axis(reader.take("n"), grid.n);
  read_axis(reader.take("k"), grid.k);
  ConfigNode const rates = reader.take("rates");
  for (ConfigNode const& item : rates.items()) {
    FlopsPerSecond const rate = item.quantity<FlopsPerSecond>().value_or(FlopsPerSecond{1});
    if (rate.value < 1) item.report("a rate of at least 1 FLOP/s");
    grid.rates.push_back(rate);
  }
  std::size_t const wanted = grid.m.size() * grid.n.size() * grid.k.size();
  if (grid.rates.size() != wanted && rates.is_sound()) {
    rates.report(std::to_string(grid.rates.size()) + " rates",
                 "one for each shape of the grid: " + std::to_string(wanted));
  }
  reader.finish();
}

void read_cost(ConfigNode const& node, KernelCost& cost) {
  SectionReader reader{node};
  ConfigNode const latency = reader.take("latency");
  ConfigNode const bandwidth = reader.take("bandwidth");
  cost.latency = latency.quantity<Seconds>().value_or(Seconds{});
  if (cost.latency.value > longest_latency) latency.report("a time of at most 100000 s");
  cost.bandwidth = bandwidth.quantity<BytesPerSecond>().value_or(BytesPerSecond{1});
  if (cost.bandwidth.value < 1) bandwidth.report("a rate of at least 1 B/s");
  reader.finish();
}

Json texts(std::vector<FlopsPerSecond> const& rates) {
  Json list = Json::array();
  for (FlopsPerSecond const rate : rates) list.push_back(exact_text(rate));
  return list;
}

}  // namespace

GemmForm form_of(GemmShape const& gemm) {
  bool const is_batch = gemm.batch > 1;
  if (gemm.transpose_a) return is_batch ? GemmForm::batched_tn : GemmForm::tn;
  if (gemm.transpose_b) return is_batch ? GemmForm::batched_nt : GemmForm::nt;
  return is_batch ? GemmForm::batched_nn : GemmForm::nn;
}

GemmForm without_batch(GemmForm form) {
  switch (form) {
    case GemmForm::batched_nt:
      return GemmForm::nt;
    case GemmForm::batched_nn:
      return GemmForm::nn;
    case GemmForm::batched_tn:
      return GemmForm::tn;
    default:
      return form;
  }
}

void read_value(ConfigNode const& node,
                std::map<Precision, std::map<GemmForm, GemmGrid>>& measured) {
  read_precisions(node, measured, [](ConfigNode const& below, std::map<GemmForm, GemmGrid>& forms) {
    SectionReader reader{below};
    for (auto const& [form, word] : EnumNames<GemmForm>::all) {
      ConfigNode const grid = reader.take(word);
      if (grid.exists()) read_grid(grid, forms[form]);
    }
    reader.finish();
  });
}

void read_value(ConfigNode const& node,
                std::map<Precision, std::map<OpKind, KernelCost>>& measured) {
  read_precisions(node, measured, [](ConfigNode const& below, std::map<OpKind, KernelCost>& kinds) {
    SectionReader reader{below};
    for (OpKind const kind : op_kinds) {
      ConfigNode const cost = reader.take(name_of(kind));
      if (cost.exists()) read_cost(cost, kinds[kind]);
    }
    reader.finish();
  });
}

Json value_json(std::map<Precision, std::map<GemmForm, GemmGrid>> const& measured) {
  Json map = Json::object();
  for (auto const& [precision, forms] : measured) {
    Json& below = map[std::string{name_of(precision)}] = Json::object();
    for (auto const& [form, grid] : forms) {
      below[std::string{name_of(form)}] = {
          {"m", grid.m}, {"n", grid.n}, {"k", grid.k}, {"rates", texts(grid.rates)}};
    }
  }
  return map;
}

Json value_json(std::map<Precision, std::map<OpKind, KernelCost>> const& measured) {
  Json map = Json::object();
  for (auto const& [precision, kinds] : measured) {
    Json& below = map[std::string{name_of(precision)}] = Json::object();
    for (auto const& [kind, cost] : kinds) {
      below[std::string{name_of(kind)}] = {{"latency", exact_text(cost.latency)},
                                           {"bandwidth", exact_text(cost.bandwidth)}};
    }
  }
  return map;
}

}  // namespace stagecraft
