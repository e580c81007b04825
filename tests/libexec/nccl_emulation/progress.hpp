#pragma once

namespace stagecraft::nccl_emulation {

/// From now on, streams go on by themselves now and then while any of them waits for another rank,
/// or will: a device works while its host does something else, and the other ranks count on it.
void keep_streams_going();

}  // namespace stagecraft::nccl_emulation
