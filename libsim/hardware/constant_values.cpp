#include "libsim/hardware/constant_values.hpp"

#include <string>

#include "libsim/config/section_reader.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

constexpr double longest_seconds = 1e5;  ///< limit of one constant; keeps sums within SimTime

template <typename Rate>
void read_rate(ConfigNode const& node, Rate& value) {
  value = node.quantity<Rate>().value_or(Rate{1});
  // Times are divided by rates, which must not be so small or large that times leave their range.
  if (value.value < 1 || value.value > 1e24) node.report("a rate from 1 to 10^24 per second");
}
}  // namespace

void read_value(ConfigNode const& node, int& value, IntegerRange range) {
  value = static_cast<int>(node.integer(range).value_or(range.smallest));
}

void read_value(ConfigNode const& node, double& value, NumberRange range) {
  value = node.number(range).value_or(range.upper);
}

void read_value(ConfigNode const& node, Bytes& value) {
  value = node.quantity<Bytes>().value_or(Bytes{});
}

void read_value(ConfigNode const& node, Seconds& value) {
  value = node.quantity<Seconds>().value_or(Seconds{});
  if (value.value > longest_seconds) node.report("a time of at most 100000 s");
}

void read_value(ConfigNode const& node, BytesPerSecond& value) { read_rate(node, value); }
void read_value(ConfigNode const& node, FlopsPerSecond& value) { read_rate(node, value); }

namespace {

/// The peaks that an accelerator may lack.
constexpr std::array optional_peaks{std::pair{std::string_view{"tf32"}, &MatrixPeaks::tf32},
                                    std::pair{std::string_view{"fp8"}, &MatrixPeaks::fp8},
                                    std::pair{std::string_view{"fp4"}, &MatrixPeaks::fp4}};

}  // namespace

void read_value(ConfigNode const& node, MatrixPeaks& peaks) {
  SectionReader reader{node};
  for (auto const& [precision, word] : EnumNames<Precision>::all) {
    ConfigNode const peak = reader.take(word);
    if (peak.exists()) read_value(peak, peaks[precision]);
  }
  for (auto const& [word, field] : optional_peaks) {
    ConfigNode const peak = reader.take(word);
    if (peak.exists()) read_value(peak, (peaks.*field).emplace());
  }
  reader.finish();
  if (peaks.empty() && node.is_sound()) {
    node.report("a map from precision (" + accepted_names<Precision>() + ") to arithmetic rate");
  }
}

namespace {

void read_table(ConfigNode const& node, std::vector<CollectivePoint>& table) {
  std::string const accepted =
      "a list of points [size, time], such as [[1 MiB, 92.8 us]], "
      "of ascending size";
  for (ConfigNode const& item : node.items()) {
    std::vector<ConfigNode> const pair = item.items();
    if (pair.size() != 2) {
      item.report("a point [size, time], such as [1 MiB, 92.8 us]");
      continue;
    }
    CollectivePoint point;
    read_value(pair[0], point.size);
    read_value(pair[1], point.duration);
    if (!table.empty() && node.is_sound() && point.size <= table.back().size) {
      pair[0].report("a size above that of the point before");
    }
    table.push_back(point);
  }
  if (node.items().size() < 2) node.report("at least two points, each a size and a duration");
}

}  // namespace

void read_value(ConfigNode const& node, CollectiveCost& cost) {
  SectionReader reader{node};
  ConfigNode const table = reader.take("table");
  if (table.exists()) {
    read_table(table, cost.table);
    reader.value("ranks", cost.ranks, IntegerRange{2, count_range.largest}, Need::required);
  } else {
    ConfigNode const latency = reader.take("latency");
    ConfigNode const bandwidth = reader.take("bandwidth");
    if (node.is_map() || !node.exists()) {
      read_value(latency, cost.latency);
      read_value(bandwidth, cost.bandwidth);
    }
  }
  reader.finish();
}

void read_value(ConfigNode const& node, bool& value) { value = node.boolean().value_or(false); }

namespace {

constexpr std::string_view accepted_capability = "the major number of a compute capability";

/// One value, which is that of `least`, or a map from whole numbers from `least` on to values. A
/// value is read with what follows.
template <typename Value, typename... Range>
void read_by_number(ConfigNode const& node,
                    std::map<int, Value>& values,
                    int least,
                    std::string const& accepted,
                    Range... range) {
  values.clear();
  if (!node.is_map()) {
    read_value(node, values[least], range...);
    return;
  }
  for (ConfigNode const& entry : node.entries()) {
    int number = 0;
    for (char const digit : entry.name()) {
      bool const is_digit = digit >= '0' && digit <= '9';
      number = is_digit && number < count_range.largest ? 10 * number + (digit - '0') : -1;
      if (number < 0) break;
    }
    if (number < least) {
      entry.report_key("'" + entry.name() + "'", accepted);
      continue;
    }
    read_value(entry, values[number], range...);
  }
}

template <typename Value>
nlohmann::ordered_json json_by_number(std::map<int, Value> const& values, int least) {
  if (values.size() == 1 && values.begin()->first == least) {
    return value_json(values.begin()->second);
  }
  auto map = nlohmann::ordered_json::object();
  for (auto const& [number, value] : values) map[std::to_string(number)] = value_json(value);
  return map;
}

}  // namespace

void read_value(ConfigNode const& node, RateByNodes& rates) {
  read_by_number(node, rates, 2, "a number of nodes, 2 or more");
}

void read_value(ConfigNode const& node, BytesByCapability& bytes) {
  read_by_number(node, bytes, 0, std::string{accepted_capability});
}

void read_value(ConfigNode const& node, HostLink& link) {
  SectionReader reader{node};
  ConfigNode const bandwidth = reader.take("bandwidth");
  reader.value("accelerators", link.accelerators, count_range);
  if (node.is_map() || !node.exists()) read_value(bandwidth, link.bandwidth);
  reader.finish();
}

void read_value(ConfigNode const& node, NetworkTopology& topology) {
  constexpr double most_oversubscribed = 1000;
  SectionReader reader{node};
  reader.value("oversubscription", topology.oversubscription,
               NumberRange{1, most_oversubscribed, true}, Need::required);
  reader.value("nodes_per_unit", topology.nodes_per_unit, count_range);
  reader.value("leaf_ports", topology.leaf_ports, count_range);
  ConfigNode const rails = reader.take("rails");
  if (rails.exists()) topology.rails = rails.boolean().value_or(false);
  reader.finish();
  bool const has_ports = node.child("leaf_ports").exists();
  if (node.child("nodes_per_unit").exists() == has_ports && node.is_sound()) {
    if (has_ports) {
      node.report("both nodes_per_unit and leaf_ports",
                  "exactly one of the two; --set system.network.topology={...} replaces both");
    } else {
      node.report("neither nodes_per_unit nor leaf_ports", "exactly one of the two");
    }
  }
  if (rails.exists() && !has_ports) {
    rails.report_key("'rails' without leaf_ports", "rails together with leaf_ports");
  }
}

namespace {

/// Calls `read` with each entry of a map from kinds of ops, and with its kind.
template <typename Read>
void read_by_kind(ConfigNode const& node, Read const& read) {
  if (!node.is_map()) {
    node.report("a map from kinds of ops to factors");
    return;
  }
  SectionReader reader{node};
  for (std::size_t i = 0; i < op_kind_traits.size(); ++i) {
    ConfigNode const entry = reader.take(op_kind_traits[i].name);
    if (entry.exists()) read(entry, static_cast<OpKind>(i));
  }
  reader.finish();
}

}  // namespace

void read_value(ConfigNode const& node, std::map<OpKind, double>& factors, NumberRange range) {
  read_by_kind(
      node, [&](ConfigNode const& entry, OpKind kind) { read_value(entry, factors[kind], range); });
}

void read_value(ConfigNode const& node,
                std::map<OpKind, FactorByCapability>& factors,
                NumberRange range) {
  read_by_kind(node, [&](ConfigNode const& entry, OpKind kind) {
    read_by_number(entry, factors[kind], 0, std::string{accepted_capability}, range);
  });
}

void read_value(ConfigNode const& node, GradientOverlap& overlap) {
  overlap = node.word<GradientOverlap>().value_or(GradientOverlap::never);
}

void read_value(ConfigNode const& node, UnitSync& sync) {
  sync = node.word<UnitSync>().value_or(UnitSync::last);
}

void read_value(ConfigNode const& node, LowLibrary& library) {
  library = node.word<LowLibrary>().value_or(library);
}

void read_value(ConfigNode const& node, std::vector<ShardingKind>& kinds) {
  if (!node.is_sequence() || node.items().empty()) {
    node.report("a list of " + accepted_names<ShardingKind>());
    return;
  }
  kinds.clear();
  for (ConfigNode const& item : node.items()) {
    auto const kind = item.word<ShardingKind>();
    if (kind) kinds.push_back(*kind);
  }
}

void read_value(ConfigNode const& node, MeasuredCollectives& collectives) {
  collectives.file = node.text().value_or("");
  if (collectives.file.empty() && node.is_sound()) node.report("the name of a CSV file");
}

nlohmann::ordered_json value_json(MeasuredCollectives const& collectives) {
  return collectives.file;
}
nlohmann::ordered_json value_json(int value) { return value; }
nlohmann::ordered_json value_json(double value) { return value; }

nlohmann::ordered_json value_json(bool value) { return value; }
nlohmann::ordered_json value_json(Bytes value) { return exact_text(value); }
nlohmann::ordered_json value_json(Seconds value) { return exact_text(value); }
nlohmann::ordered_json value_json(BytesPerSecond value) { return exact_text(value); }
nlohmann::ordered_json value_json(FlopsPerSecond value) { return exact_text(value); }

nlohmann::ordered_json value_json(MatrixPeaks const& peaks) {
  auto map = nlohmann::ordered_json::object();
  for (auto const& [precision, peak] : peaks)
    map[std::string{name_of(precision)}] = exact_text(peak);
  for (auto const& [word, field] : optional_peaks) {
    if (auto const& peak = peaks.*field) map[std::string{word}] = exact_text(*peak);
  }
  return map;
}

nlohmann::ordered_json value_json(CollectiveCost const& cost) {
  nlohmann::ordered_json map;
  if (cost.table.empty()) {
    map["latency"] = exact_text(cost.latency);
    map["bandwidth"] = exact_text(cost.bandwidth);
    return map;
  }
  map["table"] = nlohmann::ordered_json::array();
  for (CollectivePoint const& point : cost.table) {
    map["table"].push_back({exact_text(point.size), exact_text(point.duration)});
  }
  map["ranks"] = cost.ranks;
  return map;
}

nlohmann::ordered_json value_json(RateByNodes const& rates) { return json_by_number(rates, 2); }

nlohmann::ordered_json value_json(BytesByCapability const& bytes) {
  return json_by_number(bytes, 0);
}

nlohmann::ordered_json value_json(HostLink const& link) {
  return {{"bandwidth", exact_text(link.bandwidth)}, {"accelerators", link.accelerators}};
}

nlohmann::ordered_json value_json(NetworkTopology const& topology) {
  nlohmann::ordered_json map{{"oversubscription", topology.oversubscription}};
  if (topology.leaf_ports == 0) {
    map["nodes_per_unit"] = topology.nodes_per_unit;
  } else {
    map["leaf_ports"] = topology.leaf_ports;
    map["rails"] = topology.rails;
  }
  return map;
}

nlohmann::ordered_json value_json(std::map<OpKind, double> const& factors) {
  auto map = nlohmann::ordered_json::object();
  for (auto const& [kind, factor] : factors) map[std::string{name_of(kind)}] = factor;
  return map;
}

nlohmann::ordered_json value_json(std::map<OpKind, FactorByCapability> const& factors) {
  auto map = nlohmann::ordered_json::object();
  for (auto const& [kind, of_kind] : factors) {
    map[std::string{name_of(kind)}] = json_by_number(of_kind, 0);
  }
  return map;
}

nlohmann::ordered_json value_json(GradientOverlap overlap) { return name_of(overlap); }

nlohmann::ordered_json value_json(UnitSync sync) { return name_of(sync); }
nlohmann::ordered_json value_json(LowLibrary library) { return name_of(library); }

nlohmann::ordered_json value_json(std::vector<ShardingKind> const& kinds) {
  auto list = nlohmann::ordered_json::array();
  for (ShardingKind const kind : kinds) list.push_back(name_of(kind));
  return list;
}

}  // namespace stagecraft
