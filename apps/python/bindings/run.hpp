#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libsim/run/run_config.hpp"
#include "libsim/run/run_variants.hpp"

namespace stagecraft::python {

/// Where runs come from: a run file, or a text that a dict was written as.
struct RunSource {
  std::filesystem::path path;  ///< the file; for a text, the name that messages give it
  std::optional<std::string> text;
  std::vector<std::string> overrides;  ///< KEY=VALUE, as --set takes them
};

/// A run that was read and checked, and from which others can be made. Threads may share it.
class Run {
 public:
  using Overrides = std::vector<std::pair<std::string, std::string>>;

  /// \throws ConfigError  with the problems that commands report.
  explicit Run(RunSource source);

  /// The run with other values of some keys. Values are YAML, as --set takes them.
  /// \throws ConfigError  with every problem of the result.
  std::shared_ptr<Run const> with(Overrides const& overrides) const;

  /// The run file with its settings, as YAML in one line: what follows from other keys is left out,
  /// unlike in as_read(). Files are replaced by their contents.
  std::string as_given() const;

  RunConfig const& as_read() const { return as_read_; }
  /// As it is simulated: see ready_run().
  RunConfig const& ready() const { return ready_; }

 private:
  /// A source, parsed once somebody asks for another run of it.
  struct Base {
    explicit Base(RunSource from) : source{std::move(from)} {}
    RunVariants const& variants();

    RunSource source;
    std::once_flag once;
    std::optional<RunVariants> parsed;
  };
  Run(std::shared_ptr<Base> base, std::vector<Setting> settings, RunConfig as_read);

  std::shared_ptr<Base> base_;
  std::vector<Setting> settings_;  ///< on top of the base, in their order
  RunConfig as_read_;
  RunConfig ready_;
};

}  // namespace stagecraft::python
