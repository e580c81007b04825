#include "libsim/config/section_reader.hpp"

#include <algorithm>

#include "libsim/config/did_you_mean.hpp"

namespace stagecraft {

SectionReader::SectionReader(ConfigNode section)
    : section_{std::move(section)},
      is_no_map_{section_.exists() && !section_.is_map() && section_.is_sound()} {
  // Nothing is said of the keys below it, which finish() names.
  if (is_no_map_) section_.diagnostics().mark_unsound(section_.key());
}

ConfigNode SectionReader::take(std::string_view key) {
  known_.emplace_back(key);
  return section_.child(key);
}

void SectionReader::finish() const {
  if (is_no_map_) section_.report("a map with keys of these: " + joined(known_));
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
    if (std::size_t const colon = name.find(':'); colon != std::string::npos) {
      accepted += "; a space follows the colon after a key: " + name.substr(0, colon) + ": " +
                  name.substr(colon + 1);
    }
    entry.report_unknown(std::move(accepted));
  }
}

}  // namespace stagecraft
