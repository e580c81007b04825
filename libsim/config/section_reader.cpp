#include "libsim/config/section_reader.hpp"

#include <algorithm>

#include "libsim/config/did_you_mean.hpp"

namespace stagecraft {

SectionReader::SectionReader(ConfigNode section) : section_{std::move(section)} {
  if (section_.exists() && !section_.is_map() && section_.is_sound()) section_.report("a map");
}

ConfigNode SectionReader::take(std::string_view key) {
  known_.emplace_back(key);
  return section_.child(key);
}

std::optional<ConfigNode> SectionReader::wanted(std::string_view key, Need need) {
  ConfigNode node = take(key);
  if (!node.exists() && need == Need::optional) return std::nullopt;
  return node;
}

void SectionReader::number(std::string_view key, double& field, NumberRange range, Need need) {
  if (auto const node = wanted(key, need)) {
    if (auto const value = node->number(range)) field = *value;
  }
}

void SectionReader::integer(std::string_view key,
                            std::optional<std::int64_t>& field,
                            IntegerRange range) {
  ConfigNode const node = take(key);
  if (node.exists()) field = node.integer(range);
}

void SectionReader::number(std::string_view key, std::optional<double>& field, NumberRange range) {
  ConfigNode const node = take(key);
  if (node.exists()) field = node.number(range);
}

void SectionReader::boolean(std::string_view key, std::optional<bool>& field) {
  ConfigNode const node = take(key);
  if (node.exists()) field = node.boolean();
}

void SectionReader::boolean(std::string_view key, bool& field, Need need) {
  if (auto const node = wanted(key, need)) {
    if (auto const value = node->boolean()) field = *value;
  }
}

void SectionReader::text(std::string_view key, std::string& field, Need need) {
  if (auto const node = wanted(key, need)) {
    if (auto const value = node->text()) field = *value;
  }
}

void SectionReader::finish() const {
  for (ConfigNode const& entry : section_.entries()) {
    if (std::find(known_.begin(), known_.end(), entry.name()) != known_.end()) continue;
    std::string accepted = joined(known_);
    auto const reason = std::ranges::find_if(
        reasons_, [&](auto const& pair) { return pair.first == entry.name(); });
    if (reason != reasons_.end()) {
      entry.report_unknown(accepted + "; " + reason->second);
      continue;
    }
    auto const synonym = std::ranges::find_if(
        synonyms_, [&](auto const& pair) { return pair.first == entry.name(); });
    std::string_view const meant =
        synonym != synonyms_.end() ? synonym->second : nearest_word(entry.name(), known_);
    if (!meant.empty()) {
      accepted += hint_of(meant);
      // The default of the misspelt key must not cause further, confusing problems.
      section_.diagnostics().mark_unsound(section_.key_of(meant));
    }
    std::string const name{entry.name()};
    std::string const section = name.substr(0, name.find('.'));
    if (section != name && std::find(known_.begin(), known_.end(), section) != known_.end()) {
      accepted += "; a key of a section is written as " + section + ": {" +
                  name.substr(section.size() + 1) + ": ...}";
    }
    entry.report_unknown(std::move(accepted));
  }
}

}  // namespace stagecraft
