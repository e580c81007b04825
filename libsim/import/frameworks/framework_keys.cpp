#include "libsim/import/frameworks/framework_keys.hpp"

#include <algorithm>
#include <cmath>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

/// The largest whole number that double holds exactly.
constexpr double largest_count = 9007199254740992.0;

bool is_null(ConfigNode const& node) {
  return !node.is_scalar() && !node.is_sequence() && !node.is_map();
}

/// Whether a key with this value asks for nothing, whatever it is called.
bool asks_for_nothing(ConfigNode const& node) {
  if (is_null(node) || node.found() == "an empty list" || node.found() == "an empty map") {
    return true;
  }
  auto const words = {"false", "False", "0", "none", "None", "no", "NO", "off", "disabled", ""};
  return std::ranges::any_of(words, [&](char const* word) { return node.reads(word); });
}

/// The value as it was written; of a list its values.
std::string value_text(ConfigNode const& value) {
  if (!value.is_sequence()) return unquoted(value.found());
  std::vector<std::string> items;
  for (ConfigNode const& item : value.items()) items.push_back(unquoted(item.found()));
  return joined(items);
}

bool is_below(std::string_view key, std::string_view section) {
  return key.size() > section.size() && key.starts_with(section) && key[section.size()] == '.';
}

}  // namespace

FrameworkKeys::FrameworkKeys(ConfigNode const& root,
                             std::span<UnreadKey const> unread,
                             Omissions& omissions)
    : root_{root}, unread_{unread}, omissions_{omissions} {}

std::optional<ConfigNode> FrameworkKeys::find(std::string_view key) {
  if (std::ranges::find(read_, key) == read_.end()) read_.emplace_back(key);
  ConfigNode value = root_;
  for (std::string_view const name : split_text(key, ".")) value = value.child(name);
  return is_null(value) ? std::nullopt : std::optional{std::move(value)};
}

bool FrameworkKeys::is_auto(std::string_view key) {
  auto const value = find(key);
  return value && value->reads("auto");
}

void FrameworkKeys::report(std::string_view key, std::string accepted) {
  auto const value = find(key);
  ConfigNode const place = value ? *value : root_;
  root_.diagnostics().add(
      {place.place(), std::string{key}, value ? value->found() : "", std::move(accepted)});
}

void FrameworkKeys::report(std::string_view key, std::string found, std::string accepted) {
  root_.diagnostics().add({root_.place(), std::string{key}, std::move(found), std::move(accepted)});
}

std::optional<std::int64_t> FrameworkKeys::count(std::string_view key, std::int64_t smallest) {
  auto const value = find(key);
  if (!value) return std::nullopt;
  auto const text = value->is_scalar() ? value->text() : std::nullopt;
  auto const found = text ? parse_number<double>(*text) : std::nullopt;
  auto const least = static_cast<double>(smallest);
  if (!found || *found != std::floor(*found) || *found < least || *found > largest_count) {
    value->report("a whole number from " + std::to_string(smallest));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*found);
}

std::optional<double> FrameworkKeys::number(std::string_view key, NumberRange range) {
  auto const value = find(key);
  return value ? value->number(range) : std::nullopt;
}

std::optional<std::string> FrameworkKeys::text(std::string_view key) {
  auto const value = find(key);
  return value ? value->text() : std::nullopt;
}

bool FrameworkKeys::is_true(std::string_view key) {
  auto const value = find(key);
  if (!value || value->reads("False")) return false;
  return value->reads("True") || value->boolean().value_or(false);
}

void FrameworkKeys::leave_out(std::string_view key,
                              OmittedEffect effect,
                              std::string direction,
                              std::string consequence) {
  leave_out(*find(key), std::string{key}, effect, std::move(direction), std::move(consequence));
}

void FrameworkKeys::leave_out(ConfigNode const& value,
                              std::string const& key,
                              OmittedEffect effect,
                              std::string direction,
                              std::string consequence) {
  bool const is_asked = omissions_.ignores(key);
  bool const matters = effect != OmittedEffect::none;
  if (matters && !is_asked && omissions_.is_strict()) {
    std::string const because = consequence.empty() ? "" : " (" + consequence + ")";
    value.report_key(value.found(), "what is modelled, or --ignore " + key + because);
    return;
  }
  omissions_.add({.name = key,
                  .value = value_text(value),
                  .effect = effect,
                  .direction = std::move(direction),
                  .consequence = std::move(consequence),
                  .is_asked = is_asked});
}

bool FrameworkKeys::is_read(std::string_view key) const {
  return std::ranges::find(read_, key) != read_.end();
}

UnreadKey const* FrameworkKeys::find_unread(std::string_view key) const {
  UnreadKey const* longest = nullptr;
  for (UnreadKey const& row : unread_) {
    if (row.key != key && !is_below(key, row.key)) continue;
    if (longest == nullptr || row.key.size() > longest->key.size()) longest = &row;
  }
  return longest;
}

void FrameworkKeys::leave_out_unread(ConfigNode const& value) {
  std::string const& key = value.key();
  if (!value.is_map() && is_read(key)) return;
  UnreadKey const* const row = find_unread(key);
  if (value.is_map()) {
    // A feature with settings of its own is told once, unless it is switched off.
    bool const is_feature = row != nullptr && row->key == key && row->effect != OmittedEffect::none;
    bool const is_off = value.child("enabled").reads("false");
    if (is_feature && !is_off) {
      leave_out(value, key, row->effect, std::string{row->direction},
                std::string{row->consequence});
      return;
    }
    for (ConfigNode const& entry : value.entries()) {
      if (is_off) {
        leave_out(entry, entry.key(), OmittedEffect::none, "", "");
      } else {
        leave_out_unread(entry);
      }
    }
  } else if (asks_for_nothing(value)) {
    leave_out(value, key, OmittedEffect::none, "", "");
  } else if (row != nullptr) {
    leave_out(value, key, row->effect, std::string{row->direction}, std::string{row->consequence});
  } else if (std::string const meant = did_you_mean(key, read_);
             !meant.empty() && !omissions_.ignores(key)) {
    value.report_key("an unknown key", "--ignore " + key + meant);
  } else {
    leave_out(value, key, OmittedEffect::unknown, "", "");
  }
}

std::vector<std::string> FrameworkKeys::finish() {
  for (ConfigNode const& entry : root_.entries()) leave_out_unread(entry);
  for (std::string const& name : omissions_.unused()) {
    note("--ignore " + name + " was not needed");
  }
  return notes_;
}

}  // namespace stagecraft
