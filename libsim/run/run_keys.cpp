#include "libsim/run/run_keys.hpp"

#include "libsim/training/training_keys.hpp"

namespace stagecraft {

std::span<KeyText const> run_keys() {
  static KeyLister::List const list = [] {
    KeyLister::List all;
    KeyLister lister{all};
    TrainingConfig const defaults;
    visit_keys(lister, defaults);
    return all;
  }();
  return list.keys;
}

}  // namespace stagecraft
