from bertology.pocket._evaluation import Evaluation
from bertology.pocket._settings import PretrainSettings
def model_card(settings: PretrainSettings, evaluation: Evaluation) -> str:
    return ""
