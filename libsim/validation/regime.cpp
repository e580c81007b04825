#include "libsim/validation/regime.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/run/run_variants.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

std::string scalar_text(Json const& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A section stands for its word or its name, if it has one.
std::string value_text(Json const& value, std::string const& key) {
  if (!value.is_object()) return scalar_text(value);
  std::string_view const word = word_key_of(key);
  auto const named = value.find(word.empty() ? std::string{"name"} : std::string{word});
  return scalar_text(named == value.end() ? value : *named);
}

/// The value at a dotted key; null if there is none.
Json const* look_up(Json const& root, std::string const& key) {
  Json const* node = &root;
  for (std::size_t from = 0; from <= key.size();) {
    std::size_t const dot = std::min(key.find('.', from), key.size());
    if (!node->is_object()) return nullptr;
    auto const found = node->find(key.substr(from, dot - from));
    if (found == node->end()) return nullptr;
    node = &*found;
    from = dot + 1;
  }
  return node;
}

void list_keys(Json const& node, std::string const& path, std::vector<std::string>& keys) {
  for (auto const& [name, value] : node.items()) {
    std::string const key = path.empty() ? name : path + "." + name;
    keys.push_back(key);
    if (value.is_object()) list_keys(value, key, keys);
  }
}

}  // namespace

std::vector<std::string> regime_values(DataRow const& row, std::vector<std::string> const& keys) {
  std::vector<std::string> texts;
  if (keys.empty()) return texts;
  Json const training = to_json(row.run->training);
  Json whole;  // made only if needed: a system may have tables of a thousand measured points
  for (std::string const& key : keys) {
    if (key == "group") {
      texts.push_back(row.measured.group);
      continue;
    }
    Json const* value = look_up(training, key);
    if (value == nullptr) {
      if (whole.is_null()) whole = to_json(*row.run);
      value = look_up(whole, key);
    }
    texts.push_back(value == nullptr ? std::string{} : value_text(*value, key));
  }
  return texts;
}

void require_regime_keys(DataRow const& row, std::vector<std::string> const& keys) {
  Json const root = to_json(*row.run);
  Diagnostics diagnostics;
  for (std::string const& key : keys) {
    if (key == "group" || look_up(root, key) != nullptr) continue;
    std::vector<std::string> known{"group"};
    list_keys(root, "", known);
    std::string accepted = "keys of a run file, or group, with commas between them";
    accepted += did_you_mean(key, known);
    Problem problem;
    problem.place.origin = std::make_shared<std::string const>("--by");
    problem.found = "'" + printable(key) + "'";
    problem.accepted = std::move(accepted);
    diagnostics.add(std::move(problem));
  }
  diagnostics.throw_if_any();
}

}  // namespace stagecraft
