#include "libsim/hardware/system_reader.hpp"

#include <string>
#include <utility>

#include "libsim/config/section_writer.hpp"
#include "libsim/hardware/measured_device_reader.hpp"
#include "libsim/hardware/system_fields.hpp"
#include "libsim/model/model_names.hpp"

namespace stagecraft {
namespace {

constexpr IntegerRange count_range{1, 1'000'000};
constexpr double longest_seconds = 1e5;  ///< limit of one constant; keeps sums within SimTime

void read_value(ConfigNode const& node, int& value) {
  value = static_cast<int>(node.integer(count_range).value_or(1));
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

template <typename Rate>
void read_rate(ConfigNode const& node, Rate& value) {
  value = node.quantity<Rate>().value_or(Rate{1});
  // Times are divided by rates, which must not be so small or large that times leave their range.
  if (value.value < 1 || value.value > 1e24) node.report("a rate from 1 to 10^24 per second");
}

void read_value(ConfigNode const& node, BytesPerSecond& value) { read_rate(node, value); }
void read_value(ConfigNode const& node, FlopsPerSecond& value) { read_rate(node, value); }

void read_value(ConfigNode const& node, std::map<Precision, FlopsPerSecond>& peaks) {
  SectionReader reader{node};
  for (auto const& [precision, word] : EnumNames<Precision>::all) {
    ConfigNode const peak = reader.take(word);
    if (peak.exists()) read_value(peak, peaks[precision]);
  }
  reader.finish();
  if (peaks.empty() && node.is_sound()) {
    node.report("a map from precision (" + accepted_names<Precision>() + ") to arithmetic rate");
  }
}

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

void read_value(ConfigNode const& node, CollectiveCost& cost) {
  SectionReader reader{node};
  ConfigNode const table = reader.take("table");
  if (table.exists()) {
    read_table(table, cost.table);
    reader.integer("ranks", cost.ranks, {2, count_range.largest}, Need::required);
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

/// The visitor that fills a System.
class SystemReader {
 public:
  explicit SystemReader(ConfigNode const& node) : reader_{node} {}

  void text(std::string_view key, std::string& field, Need need) { reader_.text(key, field, need); }
  void boolean(std::string_view key, bool& field) { reader_.boolean(key, field); }

  template <typename Visit>
  void section(std::string_view key, Visit visit) {
    ConfigNode const node = reader_.take(key);
    if (!node.exists() && node.is_sound()) node.report("a map");
    SystemReader below{node};
    visit(below);
    below.finish();
  }

  template <typename Fields, typename Visit>
  void optional_section(std::string_view key, std::optional<Fields>& fields, Visit visit) {
    ConfigNode const node = reader_.take(key);
    if (!node.exists()) return;
    SystemReader below{node};
    visit(below, fields.emplace());
    below.finish();
  }

  template <typename Value, typename... Range>
  void constant(std::string_view key, Sourced<Value>& field, Range... range) {
    ConfigNode const node = reader_.take(key);
    if (!node.is_map()) {
      if (node.is_sound()) node.report("a map {value: ..., source: ..., fitted: no | 'on what'}");
      return;
    }
    SectionReader constant{node};
    read_value(constant.take("value"), field.value, range...);
    constant.text("source", field.source, Need::required);
    ConfigNode const fitted = constant.take("fitted");
    if (fitted.exists() && !fitted.reads("no") && !fitted.reads("false")) {
      if (fitted.reads("yes") || fitted.reads("true")) {
        fitted.report("no, or on what it was fitted");
      } else {
        field.fitted = fitted.text().value_or("");
      }
    }
    constant.finish();
  }

  void finish() const { reader_.finish(); }

 private:
  SectionReader reader_;
};

nlohmann::ordered_json value_json(int value) { return value; }
nlohmann::ordered_json value_json(double value) { return value; }

template <typename Quantity>
nlohmann::ordered_json value_json(Quantity value) {
  return exact_text(value);
}

nlohmann::ordered_json value_json(std::map<Precision, FlopsPerSecond> const& peaks) {
  auto map = nlohmann::ordered_json::object();
  for (auto const& [precision, peak] : peaks)
    map[std::string{name_of(precision)}] = exact_text(peak);
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

/// The visitor that writes a System.
class SystemWriter {
 public:
  nlohmann::ordered_json const& map() const { return writer_.map(); }

  void text(std::string_view key, std::string const& field, Need) { writer_.text(key, field); }
  void boolean(std::string_view key, bool field) { writer_.boolean(key, field); }

  template <typename Visit>
  void section(std::string_view key, Visit visit) {
    SystemWriter below;
    visit(below);
    writer_.put(key, below.map());
  }

  template <typename Fields, typename Visit>
  void optional_section(std::string_view key, std::optional<Fields> const& fields, Visit visit) {
    if (!fields) return;
    SystemWriter below;
    visit(below, *fields);
    writer_.put(key, below.map());
  }

  template <typename Value, typename... Range>
  void constant(std::string_view key, Sourced<Value> const& field, Range...) {
    nlohmann::ordered_json constant;
    constant["value"] = value_json(field.value);
    constant["source"] = field.source;
    if (field.fitted.empty()) {
      constant["fitted"] = false;
    } else {
      constant["fitted"] = field.fitted;
    }
    writer_.put(key, constant);
  }

 private:
  SectionWriter writer_;
};

}  // namespace

System read_system(ConfigNode const& section) {
  System system;
  SystemReader reader{section};
  visit_system(reader, system);
  reader.finish();
  if (!system.node.p2p.value.table.empty()) {
    section.child("node").child("p2p").child("value").report(
        "a latency and a bandwidth, not a table");
  }
  return system;
}

nlohmann::ordered_json to_json(System const& system) {
  SystemWriter writer;
  visit_system(writer, system);
  return writer.map();
}

}  // namespace stagecraft
