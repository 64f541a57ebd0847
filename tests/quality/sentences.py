"""Pairs of sentences that were written to try the guard of templates: with another meaning at one place, and reworded without one.

The constants of the guard were chosen with FIRST. SECOND was written afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sentences:
    """``different``: pairs of which both must stay. ``reworded``: pairs of which one may go. ``followed``: what follows each sentence in the second round."""

    name: str
    different: Pairs
    reworded: Pairs
    followed: str


FIRST = Sentences(
    "first",
    different=(
        (
            "Refunds for orders shipped from the Berlin warehouse take five working days.",
            "Refunds for orders shipped from the Munich warehouse take five working days.",
        ),
        ("The capital of Australia is Canberra, not Sydney.", "The capital of Australia is Canberra, not Melbourne."),
        (
            "Marie Curie was awarded the Nobel Prize in Chemistry.",
            "Linus Pauling was awarded the Nobel Prize in Chemistry.",
        ),
        (
            "Flights from Lisbon to Madrid are cancelled today because of fog.",
            "Flights from Lisbon to Porto are cancelled today because of fog.",
        ),
        (
            "The merger between Alpha Foods and Beta Mills was approved by the regulator.",
            "The merger between Alpha Foods and Gamma Mills was approved by the regulator.",
        ),
        (
            "Contact Anna Berger for questions about travel expenses.",
            "Contact Paul Winter for questions about travel expenses.",
        ),
        (
            "This shirt is available in red, sizes S to XL, machine washable.",
            "This shirt is available in blue, sizes S to XL, machine washable.",
        ),
        ("My cat refuses to eat dry food since the move.", "My dog refuses to eat dry food since the move."),
        ("Add two cups of flour and stir until smooth.", "Add two cups of sugar and stir until smooth."),
        ("The patient was given aspirin for the pain.", "The patient was given morphine for the pain."),
        ("Press the green button to start the machine.", "Press the yellow button to start the machine."),
        (
            "The kitchen needs painting before the tenants move in.",
            "The bathroom needs painting before the tenants move in.",
        ),
        (
            "Our Monday yoga class is led by a certified instructor.",
            "Our Monday boxing class is led by a certified instructor.",
        ),
        ("The warranty covers damage caused by water.", "The warranty covers damage caused by fire."),
        (
            "Install the package with pip before you run the tests.",
            "Install the package with conda before you run the tests.",
        ),
        ("The function returns a list of all users.", "The function returns a list of all groups."),
        (
            "Restart the web service after changing the configuration.",
            "Restart the database service after changing the configuration.",
        ),
        ("Delete the file when the upload is finished.", "Rename the file when the upload is finished."),
        ("The committee approved the budget for the library.", "The committee approved the budget for the stadium."),
        ("How do I cancel my gym membership?", "How do I renew my gym membership?"),
        ("How do I reset the password of my email account?", "How do I reset the password of my bank account?"),
        ("Is it safe to take ibuprofen while pregnant?", "Is it safe to take ibuprofen while breastfeeding?"),
        (
            "The left ventricle pumps blood into the aorta.",
            "The right ventricle pumps blood into the pulmonary artery.",
        ),
        (
            "The company reported a profit of two million dollars in the second quarter.",
            "The company reported a loss of two million dollars in the second quarter.",
        ),
        ("Vaccination against measles is required for school.", "Vaccination against rubella is required for school."),
        ("Returns the index of the first match, or -1.", "Returns the index of the last match, or -1."),
        ("Raises KeyError if the key is missing.", "Raises ValueError if the key is missing."),
        ("The train to the airport leaves from platform three.", "The bus to the airport leaves from platform three."),
        (
            "Employees may carry over unused holidays to the next year.",
            "Employees may carry over unused overtime to the next year.",
        ),
        (
            "The suspect was seen near the station wearing a black jacket.",
            "The witness was seen near the station wearing a black jacket.",
        ),
        ("Insulin lowers the level of glucose in the blood.", "Glucagon raises the level of glucose in the blood."),
        (
            "The drug is taken once a day in the morning with food.",
            "The drug is taken once a day in the morning without food.",
        ),
        ("Interest is paid monthly on the savings account.", "Interest is paid yearly on the savings account."),
        ("The treaty was signed by France and Spain.", "The treaty was signed by France and Portugal."),
        ("Dogs are welcome on the terrace.", "Dogs are welcome in the dining room."),
        (
            "To enable logging, set the variable LOG_LEVEL to debug.",
            "To enable logging, set the variable LOG_LEVEL to warning.",
        ),
        ("The eldest son inherited the farm.", "The youngest son inherited the farm."),
        ("Alice sent the invoice to Bob.", "Bob sent the invoice to Alice."),
        ("Only members can vote in the election.", "Only residents can vote in the election."),
        ("Boiling point of ethanol at normal pressure", "Boiling point of methanol at normal pressure"),
    ),
    reworded=(
        ("How can I cancel my gym membership?", "How can I cancel my gym membership"),
        ("The warranty covers damage caused by water.", "The warranty covers damages caused by water."),
        (
            "Refunds for orders shipped from the Berlin warehouse take five working days.",
            "Refunds for orders that are shipped from the Berlin warehouse take five working days.",
        ),
        (
            "Install the package with pip before you run the tests.",
            "Install the package using pip before you run the tests.",
        ),
        (
            "The committee approved the budget for the library.",
            "The committee has approved the budget for the library.",
        ),
        ("Press the green button to start the machine.", "Press the green button in order to start the machine."),
        (
            "Contact Anna Berger for questions about travel expenses.",
            "Contact Anna Berger with questions about travel expenses.",
        ),
        ("The treaty was signed by France and Spain.", "The treaty was signed by Spain and France."),
        ("Marie Curie was awarded the Nobel Prize in Chemistry.", "Marie Curie received the Nobel Prize in Chemistry."),
        ("The function returns a list of all users.", "The function returns the list of all users."),
        ("My cat refuses to eat dry food since the move.", "My cat refuses to eat dry food since we moved."),
        (
            "Restart the web service after changing the configuration.",
            "Restart the web service after you change the configuration.",
        ),
        (
            "The drug is taken once a day in the morning with food.",
            "The drug is taken once daily in the morning with food.",
        ),
        ("Interest is paid monthly on the savings account.", "Interest on the savings account is paid monthly."),
        ("The eldest son inherited the farm.", "The oldest son inherited the farm."),
        (
            "Employees may carry over unused holidays to the next year.",
            "Employees may carry over unused vacation days to the next year.",
        ),
        ("Boiling point of ethanol at normal pressure", "Boiling point of ethanol at standard pressure"),
        (
            "Flights from Lisbon to Madrid are cancelled today because of fog.",
            "Flights from Lisbon to Madrid are canceled today due to fog.",
        ),
        ("Vaccination against measles is required for school.", "Vaccination against measles is mandatory for school."),
        ("Delete the file when the upload is finished.", "Delete the file once the upload is finished."),
    ),
    followed="The request is checked by two people, and the answer is sent by post within the time that the regulation names. Copies are kept for ten years in the central archive, where they can be read on request during office hours.",
)

SECOND = Sentences(
    "second",
    different=(
        (
            "The museum opens at nine and closes at five on weekdays.",
            "The library opens at nine and closes at five on weekdays.",
        ),
        ("Use a soft brush to clean the lens.", "Use a soft brush to clean the sensor."),
        (
            "Our hotel in Vienna offers free parking and breakfast.",
            "Our hotel in Prague offers free parking and breakfast.",
        ),
        ("Photosynthesis takes place in the chloroplasts.", "Respiration takes place in the mitochondria."),
        ("Mix the powder with water before use.", "Mix the powder with milk before use."),
        (
            "The novel was translated into French by the author's wife.",
            "The novel was translated into German by the author's wife.",
        ),
        (
            "Tap the icon in the upper corner to share the document.",
            "Tap the icon in the upper corner to print the document.",
        ),
        (
            "Wages are paid on the last working day of the month.",
            "Bonuses are paid on the last working day of the month.",
        ),
        ("Gold rose to a record in London trading.", "Silver rose to a record in London trading."),
        ("Apply the cream to the affected skin twice a day.", "Apply the drops to the affected eye twice a day."),
        ("She studied law at the University of Oxford.", "She studied medicine at the University of Oxford."),
        (
            "The bridge over the river was closed after the flood.",
            "The tunnel under the river was closed after the flood.",
        ),
        ("Set the timeout of the connection in seconds.", "Set the timeout of the session in seconds."),
        ("Which vaccines do I need for Kenya?", "Which vaccines do I need for Brazil?"),
        ("Tomatoes need full sun and regular watering.", "Ferns need full shade and regular watering."),
        ("The striker scored twice against Arsenal.", "The striker scored twice against Chelsea."),
        ("Returns True if all characters are digits.", "Returns True if all characters are letters."),
        ("The oldest church of the town was built by monks.", "The oldest bridge of the town was built by monks."),
        (
            "Payment by credit card is not possible at the airport office.",
            "Payment by bank transfer is not possible at the airport office.",
        ),
        ("The minister of finance resigned on Friday.", "The minister of defence resigned on Friday."),
        ("How do I change the language of the app?", "How do I change the currency of the app?"),
        (
            "Children must be accompanied by an adult in the pool.",
            "Children must be accompanied by an adult in the sauna.",
        ),
        ("The server stores the session in memory.", "The server stores the session in a database."),
        ("The earthquake was felt in Athens and on Crete.", "The earthquake was felt in Athens and on Rhodes."),
        ("Whales are hunted for their oil.", "Elephants are hunted for their ivory."),
        ("Cook the rice for ten minutes, then let it rest.", "Cook the pasta for ten minutes, then let it rest."),
        ("Rent is due on the first day of each month.", "Insurance is due on the first day of each month."),
        ("The plane to Tokyo is delayed by fog.", "The plane to Seoul is delayed by fog."),
        ("Engineers from Siemens repaired the turbine.", "Engineers from Hitachi repaired the turbine."),
        ("The child was bitten by a dog in the park.", "The child was bitten by a snake in the park."),
    ),
    reworded=(
        (
            "The museum opens at nine and closes at five on weekdays.",
            "The museum opens at 9 and closes at 5 on weekdays.",
        ),
        ("Use a soft brush to clean the lens.", "Use a soft brush for cleaning the lens."),
        (
            "Our hotel in Vienna offers free parking and breakfast.",
            "Our Vienna hotel offers free parking and breakfast.",
        ),
        ("Mix the powder with water before use.", "Mix the powder with water before using it."),
        (
            "Tap the icon in the upper corner to share the document.",
            "Tap the icon in the top corner to share the document.",
        ),
        (
            "Wages are paid on the last working day of the month.",
            "Wages are paid on the last business day of the month.",
        ),
        ("Apply the cream to the affected skin twice a day.", "Apply the cream to the affected skin two times a day."),
        ("She studied law at the University of Oxford.", "She studied law at Oxford University."),
        ("Set the timeout of the connection in seconds.", "Sets the timeout of the connection, in seconds."),
        ("Which vaccines do I need for Kenya?", "Which vaccinations do I need for Kenya?"),
        ("The striker scored twice against Arsenal.", "The striker scored two goals against Arsenal."),
        ("Returns True if all characters are digits.", "Return True if all characters are digits."),
        ("The minister of finance resigned on Friday.", "The finance minister resigned on Friday."),
        ("How do I change the language of the app?", "How can I change the language of the app?"),
        ("Children must be accompanied by an adult in the pool.", "Kids must be accompanied by an adult in the pool."),
        ("Cook the rice for ten minutes, then let it rest.", "Boil the rice for ten minutes, then let it rest."),
        ("Rent is due on the first day of each month.", "Rent is due on the first of each month."),
        ("The plane to Tokyo is delayed by fog.", "The flight to Tokyo is delayed by fog."),
        ("Engineers from Siemens repaired the turbine.", "Engineers of Siemens repaired the turbine."),
        ("The child was bitten by a dog in the park.", "The child got bitten by a dog in the park."),
    ),
    followed="Please note that opening hours may change on public holidays. Groups of more than ten people should write in advance, so that a guide can be found. Further information is at the desk in the entrance hall, in several languages.",
)

# One sentence has words that the other lacks.
LACKING = Sentences(
    "words that one lacks",
    different=(
        ("The drug is approved for adults.", "The drug is approved for adults over 65."),
        ("Members may vote at the meeting.", "Members with a paid share may vote at the meeting."),
        ("Payment is due within thirty days.", "Payment is due within thirty business days."),
        ("Smoking is allowed on the terrace.", "Smoking is allowed on the terrace after ten in the evening."),
        ("The film was a success in Europe.", "The film was a success in Eastern Europe."),
        ("Store the vaccine in the fridge.", "Store the opened vaccine in the fridge."),
        ("The contract ends on request of the tenant.", "The contract ends on written request of the tenant."),
        ("Returns all users.", "Returns all active users."),
        ("The bank charges a fee for transfers.", "The bank charges a fee for international transfers."),
        ("The court dismissed the appeal.", "The court dismissed the appeal of the second defendant."),
        ("Children travel free.", "Children under six travel free."),
        ("The river is safe to swim in.", "The upper river is safe to swim in."),
    ),
    reworded=(
        ("The drug is approved for adults.", "The drug is now approved for adults."),
        ("Payment is due within thirty days.", "Payment is due within a period of thirty days."),
        ("Members may vote at the meeting.", "All members may vote at the meeting."),
        ("The film was a success in Europe.", "The film was a great success in Europe."),
        ("The court dismissed the appeal.", "The court has today dismissed the appeal."),
        ("Store the vaccine in the fridge.", "Please store the vaccine in the fridge."),
    ),
    followed="The request is checked by two people, and the answer is sent by post within the time that the regulation names.",
)
