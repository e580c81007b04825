#pragma once

#include <string>

#include "libsim/schedule/stage_program.hpp"

namespace stagecraft {

/// SHA-256 of the text of a stage's issue order, unrolled, in 64 hexadecimal digits. Equal orders
/// have equal digests, even if their programs repeat in different ways.
///
/// Plans that differ only in sizes have equal orders. So each thread remembers the digests of
/// programs that it has seen, up to about eight mebibytes of them; a sweep returns to the same
/// numbers of microbatches again and again.
std::string order_digest(StageProgram const& program);

}  // namespace stagecraft
