#pragma once

#include <string>

#include "libsim/schedule/stage_program.hpp"

namespace stagecraft {

/// SHA-256 of the text of a stage's issue order, unrolled: equal orders have equal digests, however
/// their programs write repetition down. 64 hexadecimal digits.
///
/// Plans that differ in sizes only have equal orders, so each thread remembers the digests of
/// programs that it has seen, up to about eight mebibytes of them: a sweep comes back to the same
/// numbers of microbatches again and again.
std::string order_digest(StageProgram const& program);

}  // namespace stagecraft
