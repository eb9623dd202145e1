"""Units of a NeuronCore: DMA queues, the PE array, and the engines that empty PSUM."""
