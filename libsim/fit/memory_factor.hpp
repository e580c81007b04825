#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libsim/engine/verdict.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/units/ids.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What was seen of the memory of one run.
struct MemoryObservation {
  enum class Kind : std::uint8_t {
    died,       ///< a rank ran out of memory
    reserved,   ///< torch.cuda.max_memory_reserved() of a rank
    allocated,  ///< torch.cuda.max_memory_allocated() of a rank
  };
  Kind kind = Kind::died;
  Bytes bytes{};                   ///< what was reserved or allocated
  std::optional<StageId> stage{};  ///< the rank's stage; nullopt: the fullest
  std::optional<Bytes> tried{};    ///< died: the request that could not be served, if it is known
};

/// As options of `fit`, and in its JSON.
inline constexpr std::array<std::string_view, 3> observation_names{"died", "reserved", "allocated"};

/// The factor of a stack's memory that follows from one run.
struct MemoryFactor {
  RunConfig run;  ///< the run with the fitted factor
  MemoryObservation seen;
  StageId stage{};
  double prior = 1;
  std::optional<double> standard_error{};  ///< died: of the factor
  /// Bytes of what was seen, on a device without limit; died: reserved bytes on the run's own.
  std::int64_t predicted_before = 0;
  std::int64_t predicted = 0;  ///< the same with the factor
  /// Died: the least room that the stage was predicted to need; if it makes a request of
  /// `seen.tried`, for that request.
  std::int64_t needed = 0;
  bool makes_request = false;  ///< whether a request of `seen.tried` is predicted
  std::int64_t room = 0;       ///< what the stage's allocator can reserve at most
  /// Between these a measurement lies with 80 %: predicted bytes exp(bias +- 1.28 spread).
  std::array<double, 2> interval{};
  std::string evidence;  ///< the runs from which the interval follows
  Verdict verdict_before = Verdict::fits;
  Verdict verdict = Verdict::fits;
  std::optional<double> lives_before{};  ///< the probability that all stages live
  std::optional<double> lives{};
  std::string why_not_known{};  ///< why neither is known; empty if they are

  double value() const { return run.system.software.memory.factor.value; }
  /// Whether what was seen was to be expected: measured bytes within the interval; died: room less
  /// than its upper end.
  bool is_expected() const;
};

/// Fits `software.memory.factor` of a run to what one run showed. Measured bytes give it alone.
/// A rank that died gives only a bound: the least factor with which its allocator fails. The fitted
/// factor is the mean of the prior above that bound. The prior is a normal distribution of
/// ln(measured / predicted), of runs of the same software; if there are none, of the software with
/// the largest spread. A factor that was fitted to one run before, and explains that this one died,
/// is kept. `name` names the run in the source.
/// \throws ConfigError  naming the option, if the run has no such stage, an accelerator has no room
///                      for so many bytes or such a request, or the factor is outside its range.
MemoryFactor fit_memory_factor(RunConfig run,
                               MemoryObservation const& seen,
                               std::string const& name);

}  // namespace stagecraft
