#pragma once

namespace stagecraft::nccl_emulation {

/// What is made in no group. \throws Failure  within one of the calling thread.
void require_no_group(char const* call);

}  // namespace stagecraft::nccl_emulation
