#pragma once

#include <string>
#include <vector>

#include "apps/python/bindings/run.hpp"

namespace stagecraft::python {

// Documents of commands, as text; each is what the command prints with --json.

/// `explain`. Uses up to `jobs` threads.
std::string explain_document(Run const& run, int jobs, bool has_pairs);
/// `layer`.
std::string layer_document(Run const& run);

}  // namespace stagecraft::python
