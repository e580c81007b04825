#include "libsim/run/run_keys.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::run_keys_test {
namespace {

using Json = nlohmann::ordered_json;
using Overrides = std::vector<std::string>;

std::filesystem::path const run_file =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper" / "x.yaml";

std::string const run =
    "model: {layers: 4, hidden: 64, heads: 4, sequence: 32, vocabulary: 128}\n"
    "system: selene-a100\n"
    "batch: {global: 8}\n";

/// The messages for a run; empty if it has no mistakes.
std::string message(std::string const& text, Overrides const& overrides) {
  try {
    parse_run_config(text, run_file, overrides);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return {};
}

/// What a run needs for a key to have a meaning.
Overrides beside(std::string const& key) {
  auto const below = [&](std::string const& section) { return key.starts_with(section + "."); };
  auto const kind = [](std::string const& name) {
    return Overrides{"schedule={kind: " + name + "}", "parallel.pipeline=2"};
  };
  if (below("model.experts")) return {"model.experts={count: 4, per_token: 1, ffn_hidden: 8}"};
  if (below("model.window")) return {"model.window={size: 8}"};
  if (below("model.latent_attention")) {
    return {"model.latent_attention={key_rank: 8, nope_dim: 8, rope_dim: 8, value_dim: 8}",
            "model.positions=rotary", "model.biases=false"};
  }
  if (key == "recompute.modules") return {"recompute={granularity: selective}"};
  if (below("recompute")) return {"recompute={granularity: full}"};
  if (below("routing")) {
    return {"model.experts={count: 4, per_token: 1, ffn_hidden: 8}", "routing={capacity: 1}"};
  }
  if (below("layout")) return {"layout={first: 2, last: 2}", "parallel.pipeline=2"};
  if (key == "schedule.group") return kind("interleaved");
  if (key == "schedule.variant") return kind("zbv");
  if (key == "schedule.fuse_adjacent") return kind("zb_h1");
  if (key == "schedule.memory_limit") return kind("zb_auto");
  for (char const* const of_searched : {"seed", "iterations", "seconds"}) {
    if (key == std::string{"schedule."} + of_searched) return kind("searched");
  }
  for (char const* const of_order : {"file", "orders", "placement"}) {
    if (key == std::string{"schedule."} + of_order) return kind("order");
  }
  return below("schedule") ? Overrides{"schedule={kind: 1f1b}"} : Overrides{};
}

/// The keys that messages on an unknown key `zz` list.
void collect(std::set<std::string>& keys, std::string const& messages) {
  std::istringstream lines{messages};
  for (std::string line; std::getline(lines, line);) {
    std::string const found = "zz: found an unknown key; accepted: ";
    std::size_t const at = line.find(found);
    if (at == std::string::npos) continue;
    std::size_t const start = line.rfind(' ', at - 1) + 1;
    std::string const section = line.substr(start, at - start);
    std::istringstream names{line.substr(at + found.size())};
    for (std::string name; std::getline(names, name, ',');) {
      keys.insert(section + name.substr(name.find_first_not_of(' ')));
    }
  }
}

std::string text_of(Json const& value) {
  if (value.is_object()) {
    for (char const* const word : {"kind", "granularity", "name"}) {
      if (value.contains(word)) return text_of(value.at(word));
    }
  }
  if (value.is_array()) {
    std::string text = "[";
    for (Json const& item : value) text += (text.size() > 1 ? ", " : "") + text_of(item);
    return text + "]";
  }
  return value.is_string() && value != "" ? value.get<std::string>() : value.dump();
}

}  // namespace

TEST_CASE("every key that the readers of a run accept is explained, and no other", "[run]") {
  std::set<std::string> accepted;
  Overrides const unknown{"model.zz=1",
                          "parallel.zz=1",
                          "batch.zz=1",
                          "memory.zz=1",
                          "training.zz=1",
                          "zz=1",
                          "layout={zz: 1}",
                          "sharding={zz: 1}",
                          "offload={zz: 1, activations: {zz: 1}}",
                          "low_precision={zz: 1, keep_high: {zz: 1}}"};
  collect(accepted, message(run, unknown));
  for (KeyText const& text : run_keys()) {
    std::string const key{text.key};
    Overrides overrides = beside(key);
    if (overrides.empty() || key.find('.') == std::string::npos) continue;
    overrides.push_back(key.substr(0, key.rfind('.')) + ".zz=1");
    collect(accepted, message(run, overrides));
  }
  std::set<std::string> listed;
  for (KeyText const& text : run_keys()) listed.insert(std::string{text.key});
  REQUIRE(listed.size() == run_keys().size());
  for (std::string const& key : accepted) {
    CAPTURE(key);
    bool const has_listed_keys = std::ranges::any_of(
        listed, [&](std::string const& other) { return other.starts_with(key + "."); });
    REQUIRE((listed.contains(key) || has_listed_keys));
  }
  for (std::string const& key : listed) {
    CAPTURE(key);
    REQUIRE((accepted.contains(key) || key == "recompute.per_stage"));
  }
}

TEST_CASE("a wrong value of a key is told what its text says", "[run]") {
  // These name a file, or are read item by item.
  std::set<std::string_view> const others{"model", "system", "software", "recompute.per_stage",
                                          "schedule.orders"};
  int seen = 0;
  for (KeyText const& text : run_keys()) {
    if (others.contains(text.key) || text.accepts == "text") continue;
    std::string const key{text.key};
    CAPTURE(key);
    Overrides overrides = beside(key);
    overrides.push_back(key + "=zzz");
    std::string const said = message(run, overrides);
    REQUIRE_THAT(said, Catch::Contains(key + ": found 'zzz'; accepted: ") &&
                           Catch::Contains(std::string{text.accepts}));
    ++seen;
  }
  REQUIRE(seen > 100);
}

TEST_CASE("the defaults of keys are those of a run that leaves them out", "[run]") {
  int seen = 0;
  for (KeyText const& text : run_keys()) {
    std::string const fallback{text.fallback};
    bool const says_from_what = fallback == "required" || fallback.starts_with("model.") ||
                                fallback.starts_with("parallel.") ||
                                (fallback.find(' ') != std::string::npos && fallback[0] != '[');
    if (says_from_what) continue;
    std::string const key{text.key};
    CAPTURE(key);
    if (beside(key) == beside("schedule.file")) continue;  // an order has no other keys then
    if (key == "routing.capacity") continue;               // which beside() gives
    Json const config = to_json(parse_run_config(run, run_file, beside(key)));
    std::string pointer = "/" + key;
    std::ranges::replace(pointer, '.', '/');
    Json::json_pointer const at{pointer};
    if (!config.contains(at)) continue;
    REQUIRE(text_of(config.at(at)) == fallback);
    ++seen;
  }
  REQUIRE(seen > 80);
}

TEST_CASE("a run without a required key is told that it is missing", "[run]") {
  for (KeyText const& text : run_keys()) {
    if (text.fallback != "required" || !text.key.starts_with("model.")) continue;
    std::string const key{text.key};
    CAPTURE(key);
    std::string const section = key.substr(0, key.rfind('.'));
    // The section has no other key.
    REQUIRE_THAT(message(run, {section + "={zz: 1}"}), Catch::Contains(key + ": missing"));
  }
}

}  // namespace stagecraft::run_keys_test
