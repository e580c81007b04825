#include "libsim/import/huggingface/huggingface_keys.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/import/huggingface/huggingface_effects.hpp"

namespace stagecraft {
namespace {

std::string shortest(double value) {
  std::array<char, 32> digits{};
  auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

bool same_text(ConfigNode const& a, ConfigNode const& b) { return a.found() == b.found(); }

}  // namespace

HuggingfaceKeys::HuggingfaceKeys(ConfigNode const& root, Omissions& omissions)
    : root_{root}, omissions_{omissions} {}

std::optional<ConfigNode> HuggingfaceKeys::node(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  ConfigNode child = root_.child(key);
  bool const has_value = child.is_scalar() || child.is_sequence() || child.is_map();
  return has_value ? std::optional{std::move(child)} : std::nullopt;
}

std::optional<ConfigNode> HuggingfaceKeys::first_of(Names names) {
  std::optional<ConfigNode> first;
  for (std::string_view const name : names) {
    std::optional<ConfigNode> other = node(name);
    if (!other) continue;
    if (!first) {
      first = std::move(other);
    } else if (!same_text(*first, *other)) {
      other->report("the value of " + first->key() + " (" + first->found() +
                    "), or one of the two");
    }
  }
  return first;
}

std::optional<std::int64_t> HuggingfaceKeys::find_integer(Names names, IntegerRange range) {
  auto const found = first_of(names);
  return found ? found->integer(range) : std::nullopt;
}

std::optional<double> HuggingfaceKeys::find_number(Names names, NumberRange range) {
  auto const found = first_of(names);
  return found ? found->number(range) : std::nullopt;
}

std::optional<bool> HuggingfaceKeys::find_boolean(Names names) {
  auto const found = first_of(names);
  return found ? found->boolean() : std::nullopt;
}

std::optional<std::string> HuggingfaceKeys::find_text(Names names) {
  auto const found = first_of(names);
  return found ? found->text() : std::nullopt;
}

std::vector<std::string> HuggingfaceKeys::find_texts(std::string_view key) {
  std::vector<std::string> texts;
  auto const list = node(key);
  if (!list) return texts;
  if (!list->is_sequence()) list->report("a list of words");
  for (ConfigNode const& item : list->items()) texts.push_back(item.text().value_or(""));
  return texts;
}

std::string HuggingfaceKeys::nested_text(std::string_view key, Names names) {
  auto const outer = node(key);
  if (!outer || !outer->is_map()) return {};
  for (std::string_view const name : names) {
    ConfigNode const inner = outer->child(name);
    if (inner.is_scalar()) return inner.text().value_or("");
  }
  return {};
}

std::optional<double> HuggingfaceKeys::find_nested_number(Names path, NumberRange range) {
  auto const outer = node(*path.begin());
  if (!outer || !outer->is_map()) return std::nullopt;
  ConfigNode inner = *outer;
  for (auto key = path.begin() + 1; key < path.end(); ++key) inner = inner.child(*key);
  if (!inner.exists()) return std::nullopt;
  return inner.number(range);
}

std::int64_t HuggingfaceKeys::integer(Names names, IntegerRange range, std::string_view remedy) {
  auto const found = first_of(names);
  if (found) return found->integer(range).value_or(0);
  std::string accepted = "a whole number from " + std::to_string(range.smallest) + " to " +
                         std::to_string(range.largest);
  std::string separator = " (also under the name ";
  for (auto name = names.begin() + 1; name < names.end(); ++name) {
    accepted += separator + std::string{*name};
    separator = " or ";
  }
  if (names.size() > 1) accepted += ")";
  root_.child(*names.begin()).report("", accepted + std::string{remedy});
  return 0;
}

void HuggingfaceKeys::assume(Names names, std::string const& value) {
  assumed_.push_back(std::string{*names.begin()} + " " + value);
}

double HuggingfaceKeys::number_or(Names names, NumberRange range, double fallback) {
  auto const found = first_of(names);
  if (!found) assume(names, shortest(fallback));
  return found ? found->number(range).value_or(fallback) : fallback;
}

bool HuggingfaceKeys::boolean_or(Names names, bool fallback) {
  auto const found = first_of(names);
  if (!found) assume(names, fallback ? "true" : "false");
  return found ? found->boolean().value_or(fallback) : fallback;
}

std::string HuggingfaceKeys::text_or(Names names, std::string_view fallback) {
  auto const found = first_of(names);
  if (!found) assume(names, std::string{fallback});
  return found ? found->text().value_or(std::string{fallback}) : std::string{fallback};
}

void HuggingfaceKeys::leave_out(std::string_view key,
                                std::string const& value,
                                std::string consequence,
                                bool is_asked) {
  HuggingfaceEffect const effect = effect_of(key);
  omissions_.add({.name = std::string{key},
                  .value = unquoted(value),
                  .effect = effect.effect,
                  .direction = std::string{effect.direction},
                  .consequence = std::move(consequence),
                  .is_asked = is_asked});
}

bool HuggingfaceKeys::leaves_out(std::string_view key, std::string const& consequence) {
  if (!omissions_.ignores(key)) return false;
  std::optional<ConfigNode> const value = node(key);
  std::string const found = value ? value->found() : "";
  note("ignored: " + std::string{key} + (value ? " " + found : "") + ": " + consequence);
  leave_out(key, found, consequence, true);
  return true;
}

bool HuggingfaceKeys::refuse(std::string_view key,
                             std::string const& accepted,
                             std::string const& consequence) {
  if (leaves_out(key, consequence)) return true;
  std::optional<ConfigNode> const value = node(key);
  std::string const found = value ? value->found() : "";
  if (!omissions_.is_strict()) {
    leave_out(key, found, consequence, false);
    return true;
  }
  root_.child(key).report(
      found, accepted + ", or --ignore " + std::string{key} + " (" + consequence + ")");
  return false;
}

void HuggingfaceKeys::approximate(std::string const& name,
                                  std::string const& part,
                                  std::string const& lost) {
  bool const is_asked = omissions_.ignores(name);
  if (is_asked) note("approximated: without " + part + "; " + lost);
  if (is_asked || !omissions_.is_strict()) {
    leave_out(name, part, lost, is_asked);
    return;
  }
  ConfigNode const type = root_.child("model_type");
  type.report(type.found() + ", whose " + part + " are not modelled",
              "--ignore " + name + ", which leaves them out (" + lost + ")");
}

void HuggingfaceKeys::refuse_if_true(std::string_view key, std::string const& consequence) {
  if (find_boolean({key}).value_or(false)) refuse(key, "false", consequence);
}

void HuggingfaceKeys::refuse_kind_if_true(std::string_view key, std::string const& consequence) {
  if (!find_boolean({key}).value_or(false) || leaves_out(key, consequence)) return;
  ConfigNode const value = root_.child(key);
  value.report("false, or --ignore " + std::string{key} + " (" + consequence + ")");
}

void HuggingfaceKeys::without_effect(Names names) {
  for (std::string_view const name : names) {
    if (node(name)) idle_.emplace_back(name);
  }
}

void HuggingfaceKeys::leave_out_unknown(ConfigNode const& entry) {
  std::string const& name = entry.name();
  Omission omission{.name = printable(name),
                    .value = unquoted(entry.found()),
                    .effect = OmittedEffect::unknown,
                    .is_asked = omissions_.ignores(name)};
  std::string const meant = did_you_mean(name, known_);
  if (omission.is_asked) {
    note("ignored: " + printable(name) + ", which this import does not know");
  } else if (!meant.empty() || omissions_.is_strict()) {
    entry.report_key(
        "an unknown key",
        "the keys that transformers has for this family, or --ignore " + printable(name) + meant);
    return;
  }
  omissions_.add(std::move(omission));
}

std::vector<std::string> HuggingfaceKeys::finish() {
  for (ConfigNode const& entry : root_.entries()) {
    std::string const& name = entry.name();
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    if (name.rfind('_', 0) == 0) {
      idle_.push_back(name);  // private keys of transformers
      continue;
    }
    // A key that switches nothing on changes nothing, whatever it is called.
    bool const is_null = !entry.is_scalar() && !entry.is_sequence() && !entry.is_map();
    if (is_null || entry.reads("false") || entry.found() == "an empty list" ||
        entry.found() == "an empty map") {
      idle_.push_back(name);
      continue;
    }
    leave_out_unknown(entry);
  }
  std::vector<std::string> notes;
  if (!assumed_.empty()) {
    notes.push_back("not in the file, hence transformers' default: " + joined(assumed_));
  }
  notes.insert(notes.end(), notes_.begin(), notes_.end());
  for (TrainedKey const& trained : trained_keys) {
    if (std::ranges::find(idle_, trained.key) == idle_.end()) continue;
    auto const value = node(trained.key);
    if (value && !trained.usual.empty() && value->reads(trained.usual)) continue;
    lost_.emplace_back(trained.key);
  }
  if (!lost_.empty()) {
    notes.push_back("the model that is trained also depends on " + joined(lost_) +
                    "; neither the model file nor the files of plan --kit hold that");
  }
  for (std::string const& name : idle_) omissions_.add({.name = name});
  for (std::string const& name : omissions_.unused()) {
    notes.push_back("--ignore " + name + " was not needed");
  }
  return notes;
}

}  // namespace stagecraft
