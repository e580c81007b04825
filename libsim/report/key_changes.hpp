#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// A key that has another value in a second run.
struct KeyChange {
  std::string key;                ///< dotted
  nlohmann::ordered_json before;  ///< null: the first run lacks the key
  nlohmann::ordered_json after;   ///< null: the second run lacks it
};

/// The keys in which two runs differ, defaults filled in, in the order of a run file.
std::vector<KeyChange> changes_between(RunConfig const& before, RunConfig const& after);

/// A value on one line. A system or a model has too many keys for one: it is cut short.
std::string short_text(nlohmann::ordered_json const& value, std::size_t longest = 40);

/// A line `  key: before -> after` per key, the first dozen; "no key differs" if there is none.
std::string changes_text(std::vector<KeyChange> const& changes);

/// A list of {key, before, after}.
nlohmann::ordered_json to_json(std::vector<KeyChange> const& changes);

}  // namespace stagecraft
